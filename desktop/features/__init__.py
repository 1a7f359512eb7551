"""Features of the window: a folder each, put together in `registry`."""
