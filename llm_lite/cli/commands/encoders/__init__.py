"""Subcommands of encoders, and of encoder-decoders: vectors, masked tokens, translations."""
