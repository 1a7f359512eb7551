"""How an architecture is described: rows of fields and of tensors, and what is made from them."""
