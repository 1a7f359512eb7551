"""The tree of a conversation: its branches, how a map of them lies, tokens that come back."""
