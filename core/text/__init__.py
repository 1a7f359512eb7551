"""Text to tokens and back: tokenizers, vocabularies, chat templates."""
