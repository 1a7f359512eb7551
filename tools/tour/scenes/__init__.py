"""The stations of the tour: each shows one part of the window, and leaves it as it was."""
