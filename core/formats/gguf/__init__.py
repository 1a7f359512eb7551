"""GGUF files: metadata and tensors, read and written."""
