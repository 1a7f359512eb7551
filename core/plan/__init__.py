"""A plan: the flat list of ops over named buffers that every executor runs."""
