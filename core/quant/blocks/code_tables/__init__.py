"""Formats of 4-bit codes, each the place of a number in a table of 16."""
