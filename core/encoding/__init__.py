"""Encoders at work: hidden states of a text, vectors of texts, and what masked tokens could be."""
