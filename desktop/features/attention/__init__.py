"""Attention maps of every head, one head at full size, and figures of both."""
