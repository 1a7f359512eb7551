"""What a person does with a text that is no chat: encoded, translated, cut into tokens."""
