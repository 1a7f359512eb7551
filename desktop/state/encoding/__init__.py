"""What an encoder was given to read, and what it answered."""
