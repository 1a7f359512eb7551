"""Between the window and the history: what is said is recorded, what is asked for is read."""
