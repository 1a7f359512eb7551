"""Tokens of an answer: their probabilities, alternatives, and the logit lens."""
