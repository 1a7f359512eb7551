"""Arrangements of panels that a person keeps under a name."""
