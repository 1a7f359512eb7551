"""The tree of a conversation: every version of every message, and the branch that is shown."""
