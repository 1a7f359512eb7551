"""Text of the conversation that a person selects or looks for."""
