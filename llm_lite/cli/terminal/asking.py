"""A question before something that cannot be taken back."""

from __future__ import annotations

import sys

from llm_lite.cli.terminal.output import prompt


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """y or yes; whatever else is typed, or the end of the input, is no."""
    prompt(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
