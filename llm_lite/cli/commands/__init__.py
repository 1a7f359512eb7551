"""The subcommands, a file each: `run(arguments)` carries it out and returns the exit code."""
