"""Inspection: attention, the cache, a token traced, texts cut into tokens, measured steps."""
