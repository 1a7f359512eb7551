"""The lesson that follows one token: where a person is in it, and every number that it shows."""
