"""Directories of Hugging Face: config.json and safetensors, under their own names."""
