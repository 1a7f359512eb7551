"""What a person does with functions that the model may call, and with its calls."""
