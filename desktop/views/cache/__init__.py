"""Views of the key and value cache: what it holds, what it weighs, what was forgotten."""
