"""Encoders on an executor: their weights and what makes vectors of texts, kept together."""
