"""The description of a word by the sandbox: a JSON object with its spelling, span, tokens and
steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import Steps
from llm_lite.core.records import asdict

SPACE = "▁"  # stands for a space inside tokens
WORD_WITH_SPACES = "▁+[^▁]*"  # a word and the spaces before it
Span = tuple[int, int]  # characters of the text


class Token(Struct, frozen=True):
    text: str
    id: int
    span: Span


def word_entry(
    spelled: str,
    span: Span,
    tokens: Sequence[Token],
    steps: Steps | None = None,
    marked: bool = False,
) -> dict[str, Any]:
    """Return a word's description. Its tokens cover all of the word, also spaces before them, which
    the library leaves out."""
    pieces, last = [], span[0]
    for number, token in enumerate(tokens):
        start, end = token.span
        start = min(start, last)  # of a character that several share, each has all
        end = max(end, span[1]) if number == len(tokens) - 1 else end
        pieces.append((token.text, token.id, start, max(start, end)))
        last = max(last, end)
    word: dict[str, Any] = {"spelled": spelled, "span": span, "pieces": pieces, "marked": marked}
    if steps is not None:
        word |= {"kind": type(steps).__name__, "steps": asdict(steps)}
    return word
