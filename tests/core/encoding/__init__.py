"""Encoders at work."""
