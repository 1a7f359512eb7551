"""The program: start-up, the loop, settings, the layout of the window."""
