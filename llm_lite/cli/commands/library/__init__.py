"""What `llm-lite models` does, a file an action: `run(arguments)` returns the exit code."""
