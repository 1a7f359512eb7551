"""Where models lie, a module a place: each finds what its program put there, copies nothing."""
