"""A source and its target, as an encoder-decoder writes it: what is typed, what was found."""
