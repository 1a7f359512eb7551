"""Views of tokens: their probabilities, the logit lens, gains of heads."""
