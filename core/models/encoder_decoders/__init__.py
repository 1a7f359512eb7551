"""Encoder-decoders: two programs, the decoder's with cross-attention."""
