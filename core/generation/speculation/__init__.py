"""Speculative decoding that is exact: guessed tokens, verified several at a time in one pass over
the weights (Leviathan et al. 2023; Chen et al. 2023)."""
