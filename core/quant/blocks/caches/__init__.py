"""Rows of a cache of keys or values in fewer bits, with a scale for each head of a position."""
