"""The key and value cache: what each position holds, what it weighs, what was forgotten."""
