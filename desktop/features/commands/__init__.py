"""Commands by name or with a key: one table, from which shortcuts and hints come."""
