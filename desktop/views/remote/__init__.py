"""Engines elsewhere: how to connect, and what they do not tell."""
