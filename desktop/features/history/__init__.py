"""Conversations that are kept: recorded as they are written, listed, searched and opened."""
