"""Gains of heads: which are weakened or strengthened in the conversation in front."""
