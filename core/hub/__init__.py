"""Models known by name, and where they are."""
