"""Steps that can be undone and done again."""
