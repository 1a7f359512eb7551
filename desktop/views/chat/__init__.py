"""The conversation: its messages, where they are written, how they are sampled."""
