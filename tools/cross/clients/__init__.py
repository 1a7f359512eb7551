"""What each client of `tools.cross.conformance` runs: one turn with a call of a function."""
