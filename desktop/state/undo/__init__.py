"""What can be undone and done again: the steps and their order."""
