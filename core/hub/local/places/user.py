"""The folders of a user by the environment, as other programs read it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path | None:
    """Return the home directory; None for a user without one."""
    try:
        found = Path.home()
    except (RuntimeError, KeyError):
        return None
    return found if found.is_absolute() else None


def at_home(*parts: str) -> tuple[Path, ...]:
    """Return a path below the home directory; () if there is none."""
    found = home()
    return () if found is None else (found.joinpath(*parts),)


def environment_path(variable: str) -> Path | None:
    """Return a path in the environment, with ~ and variables in it expanded."""
    text = os.environ.get(variable, "").strip()
    if not text or "\0" in text:
        return None
    return expanded(os.path.expandvars(text))


def expanded(text: str) -> Path | None:
    """Return a path with ~ replaced by the home directory; None if that is unknown."""
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError):
        return None
