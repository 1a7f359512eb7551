"""What the window knows, and the pure functions that change it."""
