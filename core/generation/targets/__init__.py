"""What an encoder-decoder writes about its source: greedy, or with a beam of hypotheses."""
