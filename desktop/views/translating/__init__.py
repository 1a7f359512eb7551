"""The page of an encoder-decoder in the chat pane: a source, its target, and what lies between."""
