"""Formulas and the colours of code, made in a process apart, and brought onto the screen.

`process` asks and keeps the answers, `worker` runs over there. `outlines` and `sheet` make pictures
of `formulas`, `code_colors` says which part of a code has which class.
"""
