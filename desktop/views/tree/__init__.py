"""The map of a conversation: every version of every message, and the way that is shown."""
