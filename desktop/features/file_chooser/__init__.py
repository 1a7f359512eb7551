"""The window's own chooser of files, for systems that have none."""
