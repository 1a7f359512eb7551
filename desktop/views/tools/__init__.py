"""Functions that a model may call: the panel where they are declared, and calls in the chat."""
