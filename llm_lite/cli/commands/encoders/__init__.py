"""Commands of encoders and of encoder-decoders."""
