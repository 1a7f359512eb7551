"""Formulas and colours of code, made in a process apart."""
