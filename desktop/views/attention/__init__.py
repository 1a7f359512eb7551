"""Views of attention: every head at once, some of them large, and figures of both."""
