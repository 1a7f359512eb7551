"""Drafts from answers of other conversations: which token followed the same last tokens before, in
a table of fixed size that each model has on disk."""
