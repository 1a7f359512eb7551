"""Targets of an encoder-decoder, the texts that it writes about its source: greedy, or with a beam
of hypotheses."""
