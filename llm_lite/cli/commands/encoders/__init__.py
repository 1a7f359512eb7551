"""Subcommands of encoders: vectors of texts, and what their masked tokens could be."""
