"""The characters that a page shows, as a person selects them: without Markdown's marks.

A page's text is that of its blocks, each followed by a line break; a position in it is a number of
characters. It stays the same when lines are broken elsewhere and when the text goes on.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from llm_lite.desktop.widgets.markdown.blocks import BULLET, Block, Container
from llm_lite.desktop.widgets.markdown.growing import clean
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.desktop.widgets.markdown.wrapping import Run

Span = tuple[int, int]  # from a character to the one behind
RULE = "---"
_WORDS = re.compile(r"\w+|[^\w\s]")
_MARKS = 4000  # characters between two words that may be marks
JOINER = "\u200d"


class Same:
    """A key of a cache that compares by identity: blocks and runs are kept while they stay as they
    are, and comparing them would cost more than what is looked for."""

    __slots__ = ("one",)

    def __init__(self, one: Any) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.one is self.one


def shown_text(block: Block) -> str:
    """Return all characters of a block: of a table with a tab between cells, of a formula its
    TeX."""
    return _read(Same(block))[0]


@lru_cache(maxsize=4096)
def _read(block: Same) -> tuple[str, tuple[Span, ...]]:
    """Return a block's characters, and where its formulas lie among them."""
    found: Block = block.one
    formulas: list[Span] = []
    parts: list[str] = []
    at = 0

    def add(words: str, is_formula: bool = False) -> None:
        nonlocal at
        if is_formula:
            formulas.append((at, at + len(words)))
        parts.append(words)
        at += len(words)

    for row_number, row in enumerate(found.cells.rows if found.cells else ((found.spans,),)):
        if row_number:
            add("\n")
        for number, spans in enumerate(row):
            if number:
                add("\t")
            for span in spans:
                add(span.text.expandtabs(4), span.kind in ("math", "display"))
    return "".join(parts), tuple(formulas)


def formula_at(blocks: Iterable[Block], at: int) -> Span | None:
    """Return the formula that `at` is inside of."""
    first = 0
    for block in blocks:
        text, formulas = _read(Same(block))
        if at <= first + len(text):
            around = [(first + a, first + b) for a, b in formulas if first + a < at < first + b]
            return around[0] if around else None
        first += len(text) + 1
    return None


def page_text(blocks: Iterable[Block]) -> str:
    return "\n".join(map(shown_text, blocks))


def block_spans(blocks: Iterable[Block]) -> list[Span]:
    """Return where each block lies in the page's text."""
    found, at = [], 0
    for block in blocks:
        size = len(shown_text(block))
        found.append((at, at + size))
        at += size + 1
    return found


def run_spans(block: Block, runs: Sequence[Run]) -> list[Span]:
    """Return where each run lies in the block's text; what broke a line is in none."""
    text, at, found = shown_text(block), 0, []
    for run in runs:
        while not text.startswith(run.text, at) and text[at : at + 1].isspace():
            at += 1
        found.append((at, at + len(run.text)))
        at += len(run.text)
    return found


def plain_text(blocks: Sequence[Block], low: int, high: int) -> str:
    """Return the text from `low` to `high` as a person sees it, with the marks of items that begin
    there."""
    parts: list[str] = []
    before: Block | None = None
    for block, (first, end) in zip(blocks, block_spans(blocks), strict=True):
        if not (first < high and low < end) and not low <= first == end < high:
            continue
        words = shown_text(block)[max(low - first, 0) : high - first]
        if block.kind == "rule":
            words = RULE
        whole = low <= first
        if before is not None:
            follows = block.joined or (before.path and any(block.markers))
            parts.append("\n" if block.tight and follows else "\n\n")
        before = block
        parts.append(_marked(block, words) if whole else words)
    return "".join(parts)


def _marked(block: Block, words: str) -> str:
    """Return `words` behind the markers of the block's items, lines below each other."""
    items = [
        (container, marker)
        for container, marker in zip(block.path, block.markers, strict=True)
        if container.kind == "item"
    ]
    if not items:
        return words
    lead = "".join(_lead(container, marker) for container, marker in items)
    return lead + words.replace("\n", "\n" + " " * len(lead))


def _lead(container: Container, marker: str) -> str:
    wide = max(container.wide, len(BULLET)) + 1
    return (marker + " ").ljust(wide) if marker else " " * wide


def markdown_source(text: str, blocks: Sequence[Block], low: int, high: int) -> str:
    """Return the lines of `text` that made the blocks between `low` and `high`; all, if that is
    unsure."""
    text = clean(text)
    pieces = Reader().read(text, {}).pieces
    chosen = [
        number
        for number, (first, end) in enumerate(block_spans(blocks))
        if (first < high and low < end) or low <= first == end < high
    ]
    if not chosen or low >= high:
        return ""
    if len(pieces) != len(blocks):
        return text
    lines = text.split("\n")[pieces[chosen[0]].first : pieces[chosen[-1]].last]
    return textwrap.dedent("\n".join(lines)).strip("\n")


def source_place(text: str, blocks: Iterable[Block], at: int) -> int:
    """Return the place behind the word of a Markdown `text` that is shown at the character `at` of
    its page. Words are found again one after the other, as marks and addresses of links stand
    between them."""
    place = 0
    for match in _WORDS.finditer(page_text(blocks)):
        if match.start() > at:
            break
        found = text.find(match[0], place, place + len(match[0]) + _MARKS)
        if found >= 0:
            place = found + len(match[0])
        if text.startswith("](", place):  # a link's address may have the next word in it
            place = max(text.find(")", place), place)
    return place


def is_stop(text: str, at: int) -> bool:
    """Return whether a caret can stand there: not inside of what is drawn as one character."""
    if not 0 < at < len(text):
        return True
    letter = text[at]
    if letter.isascii():
        return True
    joins = unicodedata.category(letter) in ("Mn", "Me", "Mc") or letter == JOINER
    medial = "\u1160" <= letter <= "\u11ff"  # vowels and endings of Hangul in parts
    tone = "\U0001f3fb" <= letter <= "\U0001f3ff"
    return not (joins or medial or tone or text[at - 1] == JOINER)


def step(text: str, at: int, forward: bool) -> int:
    """Return the next place of a caret."""
    end, move = (len(text), 1) if forward else (0, -1)
    while at != end:
        at += move
        if is_stop(text, at):
            break
    return at


def step_word(text: str, at: int, forward: bool) -> int:
    """Return the place behind the next word, or before the last one."""
    end, move, beside = (len(text), 1, 0) if forward else (0, -1, -1)
    while at != end and _kind(text[at + beside]) != "word":
        at += move
    while at != end and _kind(text[at + beside]) == "word":
        at += move
    return at


def word_at(text: str, at: int) -> Span:
    """Return the word that `at` is in, or the blanks, or a sign."""
    if not text:
        return 0, 0
    at = min(at, len(text) - 1)
    kind, low, high = _kind(text[at]), at, at + 1
    if kind == "break":
        return at, at
    while kind != "sign" and low > 0 and _kind(text[low - 1]) == kind:
        low -= 1
    while kind != "sign" and high < len(text) and _kind(text[high]) == kind:
        high += 1
    while not is_stop(text, high):
        high += 1
    return low, high


def paragraph_at(blocks: Sequence[Block], at: int) -> Span:
    """Return the block around `at`; of code its line, of a table its cell."""
    for block, (first, end) in zip(blocks, block_spans(blocks), strict=True):
        if at > end:
            continue
        if block.kind not in ("code", "table"):
            return first, end
        text, inside = shown_text(block), max(at - first, 0)
        breaks = "\n" if block.kind == "code" else "\t\n"
        low = max(text.rfind(mark, 0, inside) for mark in breaks) + 1
        ends = [text.find(mark, inside) for mark in breaks]
        high = min((found for found in ends if found >= 0), default=len(text))
        return first + low, first + high
    return at, at


def _kind(letter: str) -> str:
    if letter in "\n\t":
        return "break"
    if letter.isspace():
        return "blank"
    word = letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M"
    return "word" if word else "sign"
