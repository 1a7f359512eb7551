"""Stages of texts on their way to tokens, told by a thread of their own while the model works."""
