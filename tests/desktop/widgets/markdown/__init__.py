"""Markdown, parsed, laid out and drawn."""
