"""Command lines of tool servers."""

from __future__ import annotations

import shlex

from llm_lite.core.errors import RequestError


def split_command(command: str) -> list[str]:
    """Return program and arguments. RequestError."""
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise RequestError(f"the command cannot be split: {str(error).lower()}") from None
    if not parts or not parts[0]:
        raise RequestError("the command is empty")
    if any("\0" in part for part in parts):
        raise RequestError("the command has a null character")
    return parts
