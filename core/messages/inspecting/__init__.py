"""Looking inside: attention, the cache, a token followed, texts cut into tokens, measured steps."""
