"""Where the docked panels are: the first layout, what is remembered of it, sizes, the keyboard."""
