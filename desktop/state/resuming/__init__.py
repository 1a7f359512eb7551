"""Caches of conversations that are kept on disk, and what is offered of them."""
