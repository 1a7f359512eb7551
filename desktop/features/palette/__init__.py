"""The command palette: one field that finds all there is to do; the list of shortcuts."""
