"""Subcommands that look at a text and run no model."""
