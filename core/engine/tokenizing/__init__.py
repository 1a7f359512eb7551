"""Stages of texts on their way to tokens, computed by a thread of their own while the model
works."""
