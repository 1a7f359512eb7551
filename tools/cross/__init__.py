"""Our answers beside those of other programs and ways, and the program while it is killed."""
