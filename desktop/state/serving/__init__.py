"""The server that the window switches on: what a person chose, and what it says of its clients."""
