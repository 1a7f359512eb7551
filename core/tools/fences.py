"""Formats what a tool returns as code of Markdown, unchanged whatever it contains."""

from __future__ import annotations

import re

SHOWN = 16_000  # characters of a result that the chat lays out; the model reads all


def fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def result_as_code(text: str, most: int = 0) -> str:
    """Return a result as code, JSON with its colours; `most` characters of it, 0: all."""
    language = "json" if text.lstrip()[:1] in ("{", "[") else ""
    if most and len(text) > most:
        text = f"{text[:most]}\n… {len(text) - most:,} more characters"
    return fenced(text, language)
