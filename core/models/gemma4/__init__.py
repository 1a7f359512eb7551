"""Gemma 4 (text, dense): its fields and names, and its graph."""
