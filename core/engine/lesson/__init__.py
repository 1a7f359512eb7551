"""The lesson, which traces one token through the loaded model."""
