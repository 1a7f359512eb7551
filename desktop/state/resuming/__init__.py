"""Caches of conversations that are kept on disk, and what is offered to the one in the chat."""
