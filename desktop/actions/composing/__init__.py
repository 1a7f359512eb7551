"""What a person brings into a draft: files, prompts and presets of the library."""
