"""These services run a model themselves, without an engine: an encoder, or an encoder-decoder."""
