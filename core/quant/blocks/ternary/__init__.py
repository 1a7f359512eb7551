"""Formats of signs and of trits: a value is its block's magnitude, its negative or 0."""
