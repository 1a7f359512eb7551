"""Model definitions: an architecture a file."""
