"""A text cut into tokens while it is typed: stages, steps, two tokenizers side by side."""
