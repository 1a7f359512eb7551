"""Text of the conversation that a person selects: what is selected, and how."""
