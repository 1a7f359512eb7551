"""The conversations that are kept: the list of them, searches, and what is done with one."""
