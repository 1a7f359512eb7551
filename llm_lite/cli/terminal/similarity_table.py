"""The similarities of texts, as lines for a terminal: a table, or the closest of each if there are
many."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from llm_lite.core.plain_text import one_line

_BARS = " ▁▂▃▄▅▆▇█"  # of cosines from 0 to 1
_CELL = 8  # columns of the terminal
_LEAST_TEXT, _MOST_TEXT = 20, 48
_CLOSEST = 3  # of each text, where there is no room for a table
_WIDTH = 100  # where no terminal says its own


def similarity_table(texts: Sequence[str], cosines: np.ndarray, columns: int) -> Iterator[str]:
    """Yield the lines of `cosines` [texts, texts]; the terminal has `columns`, 0 if there is
    none."""
    count, room = len(texts), columns or _WIDTH
    number = len(str(count))
    longest = max(map(width, texts))
    text_room = min(_MOST_TEXT, longest, room - number - 2 - _CELL * count)
    if text_room < min(_LEAST_TEXT, longest):
        yield from _closest(texts, cosines, room)
        return
    head = "".join(f"{i:>{_CELL - 2}}  " for i in range(1, count + 1))
    yield " " * (number + 2 + text_room) + head.rstrip()
    for i, text in enumerate(texts):
        cells = "".join(f"{_cosine(one):>{_CELL - 2}} {_bar(one)}" for one in cosines[i])
        yield f"{i + 1:>{number}}  {fitted(text, text_room)}{cells}".rstrip()
    if count > 2:
        i, j = _closest_two(cosines)
        yield ""
        yield f"closest: {i + 1} and {j + 1} ({_cosine(cosines[i, j])})"


def _closest(texts: Sequence[str], cosines: np.ndarray, room: int) -> Iterator[str]:
    number = len(str(len(texts)))
    cell = number + 8
    text_room = max(_LEAST_TEXT, min(_MOST_TEXT, room - number - 2 - _CLOSEST * cell))
    for i, text in enumerate(texts):
        order = [j for j in np.argsort(-cosines[i], kind="stable") if j != i][:_CLOSEST]
        near = "".join(f"{j + 1:>{cell - 5}} {_cosine(cosines[i, j])}" for j in order)
        yield f"{i + 1:>{number}}  {fitted(text, text_room)}{near}"


def _closest_two(cosines: np.ndarray) -> tuple[int, int]:
    above = np.where(np.triu(np.ones_like(cosines), 1) > 0, cosines, -np.inf)
    i, j = divmod(int(np.argmax(above)), len(cosines))
    return i, j


def _cosine(value: float) -> str:
    return f"{value:.2f}"


def _bar(value: float) -> str:
    return _BARS[round(max(0.0, min(1.0, float(value))) * (len(_BARS) - 1))]


def width(text: str) -> int:
    """Return the columns that a terminal takes for the text on one line."""
    return sum(map(_columns, one_line(text)))


def fitted(text: str, room: int) -> str:
    """Return the text in `room` columns, cut with an ellipsis if it is longer."""
    plain = one_line(text)
    if width(plain) > room:
        kept, used = "", 0
        for char in plain:
            if used + _columns(char) > room - 1:
                break
            kept, used = kept + char, used + _columns(char)
        plain = kept + "…"
    return plain + " " * (room - width(plain))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
