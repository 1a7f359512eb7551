"""What the chat's composer and the page of an encoder-decoder share: the field that a person writes
in."""
