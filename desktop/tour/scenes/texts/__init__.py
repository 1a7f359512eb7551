"""Stations of pages about texts that are no chats: tokenizers, encoders, encoder-decoders."""
