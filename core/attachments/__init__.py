"""Files to attach to a message: which kind each is by its content, and its text, within limits."""
