"""Caches of conversations that are kept on disk, and the offer to go on from one."""
