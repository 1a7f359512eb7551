"""What the environment says of a user's folders, as other programs read it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path | None:
    """None for a user who has none."""
    try:
        found = Path.home()
    except (RuntimeError, KeyError):
        return None
    return found if found.is_absolute() else None


def at_home(*parts: str) -> tuple[Path, ...]:
    """A path below it; nothing where there is no home."""
    found = home()
    return () if found is None else (found.joinpath(*parts),)


def environment_path(variable: str) -> Path | None:
    """A path in the environment, with ~ and variables in it expanded."""
    text = os.environ.get(variable, "").strip()
    if not text or "\0" in text:
        return None
    return expanded(os.path.expandvars(text))


def expanded(text: str) -> Path | None:
    """With ~ as a home; None where that is unknown."""
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError):
        return None
