"""This package is the page in a browser: its files, and the routes that it alone needs."""

from llm_lite.server.page.routes import Page

__all__ = ["Page"]
