"""What a person does on the page of an encoder."""
