"""A fuzzer a file: its DOOR makes a case from a number, and says what came of it."""
