"""The page of an encoder-decoder in the chat's place: a source, its target, what lies between."""
