"""Tells lines that come together, as those of a paste do, from those that a person types."""

from __future__ import annotations

import os
import select
import sys

TOGETHER = 0.025  # seconds between the lines of a paste, at most


def more_input(wait: float = TOGETHER) -> bool:
    """Return whether more was typed on the terminal than was read. False where there is none, and
    on systems whose terminals do not tell."""
    if sys.platform == "win32":
        return False
    try:
        file = sys.stdin.fileno()
        return os.isatty(file) and bool(select.select([file], [], [], wait)[0])
    except (OSError, ValueError):
        return False
