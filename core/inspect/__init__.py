"""What looks inside a running model: attention, logit lens, statistics of the cache, head gains."""
