"""Markdown as chat models write it: parsed, laid out and drawn, while it grows too.

`reading` turns markdown-it's tokens into the flat `blocks` that `layout` places and `drawing`
draws; `growing` does so again only for the end of a text; `rich_text` has it all for a view.
"""
