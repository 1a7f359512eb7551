"""Attention of a running model: the queries and keys that it keeps, maps of heads, their scores."""
