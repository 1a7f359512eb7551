"""The server: HTTP for other programs, and the page in a browser."""
