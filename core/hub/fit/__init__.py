"""Estimates of the memory that a model takes before it is loaded, of its speed as far as memory
limits it, and of what would fit if it does not: found in headers and plans, without reading
weights."""
