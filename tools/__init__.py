"""Tools for those who work on llm-lite, run by hand or by `make`: no part of the program or wheel.

Scripts lie here; `bench` measures, `cross` compares with other programs and kills ours, `tour`
draws the window into pictures. The tour stands on the program alone, and tests drive their windows
with its parts; `bench` and `cross` take files, servers and windows of `tests/`.
"""
