"""What each client of `tests.cross.conformance` runs: one turn with a call of a function."""
