"""The command palette: one input that finds all there is to do; the list of shortcuts."""
