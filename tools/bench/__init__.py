"""Measurements of speed, memory and what quantizing loses; `results` has the reports on record."""
