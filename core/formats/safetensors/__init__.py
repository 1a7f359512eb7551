"""Safetensors files: a JSON header and raw tensors, read and written."""
