"""The history's SQLite file: its tables, the thread that writes, readings, repair of damage."""
