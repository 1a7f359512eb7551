"""What the window itself looks like: its layouts, what the command palette has found."""
