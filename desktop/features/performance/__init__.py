"""Speed of answers, savings of drafts, and a study of the kernels."""
