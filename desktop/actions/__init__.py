"""What a person does in a view, and the pure functions that turn it into state and commands."""
