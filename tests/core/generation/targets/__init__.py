"""Targets of encoder-decoders."""
