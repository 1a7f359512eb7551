"""Presets of how answers are made: their files in the data folder, and what is done with them."""
