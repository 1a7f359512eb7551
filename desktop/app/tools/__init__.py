"""Tools, as the program has them: servers run, calls are handed to them, declarations are kept."""
