"""A scripted person: random actions on the real program, after each of which the screen must be
true of what is in front. `python -m tests.desktop.person` is the long form."""
