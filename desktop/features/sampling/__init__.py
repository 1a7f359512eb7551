"""The sampling options, and the panel that sets them."""
