"""Reads values from JSON that a server sent: of the kind that is expected, or nothing."""

from __future__ import annotations

import math
import re
from typing import Any

from llm_lite.core.files.json_text import finite

LONGEST_NAME = 300  # characters
_HALF = re.compile("[\ud800-\udfff]")


def an_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def a_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any, limit: int = LONGEST_NAME) -> str:
    """Return a text. Half of a surrogate pair, which JSON can escape and no encoder takes, becomes
    U+FFFD."""
    return _HALF.sub("\ufffd", value[:limit]) if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """Return a count; 0 for an invalid one."""
    found = finite(value)
    return int(found) if found is not None and 0 <= found < 1 << 53 else 0


def number(value: Any) -> float:
    """Return a number; nan for an invalid one."""
    found = finite(value)
    return math.nan if found is None else found


def rate(value: Any) -> float:
    """Return a rate per second; 0 for an invalid one."""
    found = number(value)
    return found if 0 < found < 1e9 else 0.0


def share(log: Any) -> float:
    """Return a probability of its logarithm; nan for an invalid one."""
    found = number(log)
    return math.exp(min(found, 0.0)) if found == found else math.nan
