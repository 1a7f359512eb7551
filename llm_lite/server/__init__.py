"""This package is the server: HTTP for other programs, and the page in a browser."""
