"""The inspection of a running model: attention, logit lens, statistics of the cache, head gains."""
