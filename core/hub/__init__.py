"""Models known by name, and where they lie."""
