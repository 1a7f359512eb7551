"""Each subcommand as a person runs it."""
