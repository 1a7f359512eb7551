"""The page of an encoder-decoder, which takes the place of the chat: a source and its target."""
