"""The lesson that follows one token: what a person does in it, and which token that is."""
