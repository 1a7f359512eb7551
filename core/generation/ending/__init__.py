"""Ends an answer because of its text: stop strings, invented roles, repetition."""
