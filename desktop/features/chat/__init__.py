"""The conversation in front: its messages, where one is written, what the engine is asked."""
