"""Shows which experts of a mixture the tokens of the conversation chose, and switches experts."""
