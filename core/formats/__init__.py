"""Model files as named tensors, mapped into memory: a folder a format."""
