"""The command line: a file a subcommand. Only `desktop` imports the window."""
