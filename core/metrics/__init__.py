"""Measurements: speed, perplexity, divergence, memory, the time of each op."""
