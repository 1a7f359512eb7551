"""The lesson that follows one token, asked of whatever model is loaded."""
