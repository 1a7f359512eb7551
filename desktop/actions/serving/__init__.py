"""What a person does with the server of the window, and what the program tells of it."""
