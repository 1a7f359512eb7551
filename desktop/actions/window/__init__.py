"""What a person does with the window itself: its layouts, and the command palette."""
