"""The window in more languages than that of its code."""
