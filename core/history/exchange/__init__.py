"""Conversations out of the program and into it: Markdown, HTML, JSON; files of other programs."""
