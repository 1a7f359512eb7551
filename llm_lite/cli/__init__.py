"""The command line: a file a subcommand. Only `desktop` and `tour` import the window."""
