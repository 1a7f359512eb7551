"""The description of an architecture: rows of fields and of tensors, and what is made from them."""
