"""What was pasted into a text, found by what the field holds before and after a frame."""

from __future__ import annotations

from msgspec import Struct

LONG = 4000  # characters, some thousand tokens: a page and a half


class Pasted(Struct, frozen=True):
    before: str  # of the draft, up to what was pasted
    text: str
    after: str


def pasted(was: str, now: str) -> Pasted | None:
    """A long text that came into the field at once; None where nothing so long did."""
    if len(now) - len(was) < LONG:
        return None
    first = _common(was, now)
    end = len(now) - _common(was[first:][::-1], now[first:][::-1])
    return Pasted(now[:first], now[first:end], now[end:])


def _common(one: str, other: str) -> int:
    """How many of the first characters are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
