"""Directories of Hugging Face: config.json and safetensors, under the names that GGUF uses."""
