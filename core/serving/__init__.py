"""This package answers many requests at once: sequences share steps, a cache in pages, and
prefixes that are held once."""
