"""The page of an encoder, in the place of the chat: a text, sentences to compare, masked words."""
