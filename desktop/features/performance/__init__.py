"""How fast answers are, what drafts save, and a study of the kernels."""
