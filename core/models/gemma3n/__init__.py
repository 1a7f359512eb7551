"""Gemma 3n (text): its fields and names, its graph, and the smaller models cut out of it."""
