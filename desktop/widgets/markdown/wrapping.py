"""Greedy line breaking of styled spans. Of a text that grows, only the last lines are broken again.

Positions are in pixels from the upper left corner of the text. A word may change its style in the
middle; it is broken as little as any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.widgets.markdown.blocks import SpanKind, Spans, StyledSpan
from llm_lite.desktop.widgets.markup.sheet import Picture
from llm_lite.desktop.widgets.ui import Face, Ui

KEPT = 4  # texts that grow at the same time
INSIDE = -1  # offset of the room behind code
CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uf900-\ufaff\uff00-\uffef\U0001f000-\U0003ffff"
# Korean is broken between words, Chinese and Japanese between any two characters.
WORD = re.compile(rf"\n|[ \t]+|[{CJK}]|[^\s{CJK}]+|\s")
WIDE = re.compile(f"[{CJK}]")
CODE_SCALE = 14 / 15  # of code in a line

Formula = Callable[[StyledSpan, float], Picture | None]  # in so many pixels of width


class Run(Struct, frozen=True):
    x: float
    y: float
    text: str
    style: Face
    width: float
    kind: SpanKind = "text"
    link: str = ""
    strike: bool = False
    picture: Picture | None = None  # of a formula, instead of its source


class Mark(Struct, frozen=True):
    """Line number `row` begins at `offset` of a span, whose tabs are expanded: with a word, or
    inside of one that is longer than a line."""

    span: int
    offset: int
    row: int
    runs: int  # in the lines above
    inside: bool = False  # of a word: what is left of it is broken anywhere, too


class Style(Struct, frozen=True):
    """A style that all lines of a text have in common."""

    width: float
    size: float  # of the text, pixels
    line: float  # from one to the next
    boxed: bool = True  # code in a line has room around it
    formula: Formula | None = None
    epoch: int = 0  # of the formulas: with another, more of them are pictures


class Wrapped(Struct, frozen=True):
    """A text that was broken into lines, and how."""

    spans: Spans
    fit: tuple[Any, ...]  # what else the lines depend on
    runs: list[Run]
    lines: int
    marks: list[Mark]  # the first stands for the beginning of the text

    def common(self, spans: Spans, fit: tuple[Any, ...]) -> int:
        """Return how many first marks hold for `spans` too; 0 for another text. A word can only
        grow if it is the last one, so only the line that it is in is broken again."""
        mine, first, last = self.spans, 0, len(self.spans) - 1
        if fit != self.fit:
            return 0
        while first <= min(last, len(spans) - 1) and mine[first] == spans[first]:
            first += 1
        unsure = first  # a word that begins in the span before may be another one
        if first == last < len(spans) and _continues(mine[last], spans[last]):
            first = unsure = first + 1
        elif first <= last:
            unsure -= 1
        count = len(self.marks) - 1
        while count > 1 and self.marks[count - 1].span >= unsure:
            count -= 1
        return max(count, 1) if first else 0


def _continues(before: StyledSpan, span: StyledSpan) -> bool:
    alike = (before.style, before.kind, before.link, before.strike) == (
        *(span.style, span.kind, span.link, span.strike),
    )
    return alike and before.kind in ("text", "code") and span.text.startswith(before.text)


class Wrapping:
    """Breaks texts that grow; it knows the last few."""

    def __init__(self) -> None:
        self._last: list[Wrapped] = []

    def wrap(self, ui: Ui, spans: Spans, style: Style) -> Wrapped:
        """Wrap as the function `wrap` does; the more of `spans` was wrapped before, the sooner."""
        fit = _fit(ui, style)
        alike = [(one.common(spans, fit), one) for one in self._last]
        most, before = max(alike, key=lambda pair: pair[0], default=(0, None))
        found = wrap(ui, spans, style, before if most else None)
        others = [one for one in self._last if one is not before or not most]
        self._last = [*others[1 - KEPT :], found]
        return found


def _fit(ui: Ui, style: Style) -> tuple[Any, ...]:
    return (style.width, style.size, style.line, style.boxed, style.epoch, ui.theme.text)


def wrap(ui: Ui, spans: Spans, style: Style, before: Wrapped | None = None) -> Wrapped:
    """Break `spans` into lines. What they have in common with `before` is taken from there."""
    fit = _fit(ui, style)
    common = before.common(spans, fit) if before else 0
    marks = before.marks[:common] if before and common else [Mark(0, 0, 0, 0)]
    kept = before.runs[: marks[-1].runs] if before else []
    lines = _Lines(style.line, kept, marks[-1].row)
    for cluster in _clusters(_pieces(ui, spans, style, marks[-1])):
        first = cluster[0]
        advance = first.advance
        if len(cluster) > 1:
            advance = sum(piece.advance for piece in cluster)
        newline, blank = first.word == "\n", first.word.isspace()
        if newline or (lines.x + advance > style.width and not blank and lines.x > 0):
            lines.end()
            if first.offset != INSIDE:
                at = first.offset + newline
                marks.append(Mark(first.number, at, lines.row, len(lines.runs), first.inside))
            if newline:
                continue
        if blank and lines.x == 0 and lines.row and first.span.style != "mono":
            continue
        for piece in cluster:
            lines.add(piece)
    lines.flush()
    return Wrapped(spans, fit, lines.runs, lines.row + 1, marks)


class _Piece(Struct):
    number: int  # of the span
    offset: int
    word: str  # empty: room around code
    span: StyledSpan
    advance: float
    glued: bool = False  # to the one before
    inside: bool = False  # a letter that is not the first of its word
    picture: Picture | None = None


class _Lines:
    """The runs so far, and the one that is being put together."""

    def __init__(self, height: float, runs: list[Run], row: int) -> None:
        self.runs, self.row, self.x = runs, row, 0.0
        self._height, self._start, self._text = height, 0.0, ""
        self._span: StyledSpan | None = None

    def add(self, piece: _Piece) -> None:
        if piece.picture is not None:
            self.flush()
            self._start, self._text, self._span = self.x, piece.word, piece.span
            self.x += piece.advance
            self.flush(piece.picture)
            return
        if not piece.word or piece.span is not self._span:
            self.flush()
        if piece.word and not self._text:
            self._start, self._span = self.x, piece.span
        self._text += piece.word
        self.x += piece.advance

    def end(self) -> None:
        self.flush()
        self.x, self.row = 0.0, self.row + 1

    def flush(self, picture: Picture | None = None) -> None:
        span = self._span
        if self._text and span is not None:
            y, width = self.row * self._height, self.x - self._start
            run = Run(
                self._start, y, self._text, span.style, width, span.kind, span.link, span.strike,
                picture,
            )  # fmt: skip
            self.runs.append(run)
        self._text = ""


def _clusters(pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
    """Yield pieces between which no line is broken."""
    cluster: list[_Piece] = []
    for piece in pieces:
        if cluster and not piece.glued:
            yield cluster
            cluster = []
        cluster.append(piece)
    if cluster:
        yield cluster


def _pieces(ui: Ui, spans: Spans, style: Style, mark: Mark) -> Iterator[_Piece]:
    """Yield words with their advances, from a mark on; only a single character is longer than a
    line."""
    last = " "  # what stands before
    for number, span in enumerate(spans[mark.span :], mark.span):
        at = mark.offset if number == mark.span else 0
        picture = style.formula(span, style.width) if style.formula and _is_math(span) else None
        if picture is not None:
            glued = not last.isspace()
            yield _Piece(number, at, span.text, span, picture.width, glued, picture=picture)
            last = "x"
            continue
        apart = style.boxed and span.kind != "text"
        inside = mark.inside and number == mark.span
        words = _measured(ui, number, span, at, style, apart, inside)
        if words and at == 0 and _joins(last, words[0].word):
            words[0] = replace(words[0], glued=True)
        yield from words
        last = (words[-1].word or "x") if words else last


def _is_math(span: StyledSpan) -> bool:
    return span.kind in ("math", "display")


def _joins(last: str, word: str) -> bool:
    """Return whether a word goes on over the border of two spans."""
    if last.isspace() or word.isspace():
        return False
    return not (WIDE.match(last[-1]) or WIDE.match(word[:1]))


def _measured(
    ui: Ui, number: int, span: StyledSpan, at: int, style: Style, apart: bool, inside: bool
) -> list[_Piece]:
    """Return the words of a span from `at` on, which may be inside of one, with room around where
    it stands apart."""
    pad = ui.u(1)
    pieces: list[_Piece] = []
    if apart and at == 0:
        pieces.append(_Piece(number, 0, "", span, pad))
    ui.push_font(span.style, round(style.size * CODE_SCALE) if apart else style.size)
    for word in WORD.findall(span.text.expandtabs(4), at):
        advance = imgui.calc_text_size(word).x if word != "\n" else 0.0
        glued = bool(pieces) and not pieces[-1].word and word != "\n"
        whole = advance <= style.width and not inside
        if whole or word.isspace():  # blanks never begin a line
            pieces.append(_Piece(number, at, word, span, advance, glued))
        else:
            for place, letter in enumerate(word):
                wide = imgui.calc_text_size(letter).x
                is_inside, glued = inside or place > 0, glued and not place
                pieces.append(_Piece(number, at + place, letter, span, wide, glued, is_inside))
            inside = False
        at += len(word)
    imgui.pop_font()
    if apart:
        pieces.append(_Piece(number, INSIDE, "", span, pad, True))
    return pieces


def ascent(ui: Ui, size: float) -> float:
    """Return the distance from the upper edge of a text to its baseline."""
    return float(ui.fonts["regular"].get_font_baked(size).ascent)


def spread(ui: Ui, wrapped: Wrapped, style: Style) -> tuple[list[Run], float]:
    """Move lines further apart where formulas are taller than they; return them with the height of
    all."""
    pictured = [run for run in wrapped.runs if run.picture is not None]
    if not pictured:
        return wrapped.runs, wrapped.lines * style.line
    base = (style.line - style.size) / 2 + ascent(ui, style.size)
    above, below = [0.0] * wrapped.lines, [0.0] * wrapped.lines
    for run in pictured:
        row, picture = round(run.y / style.line), run.picture
        assert picture is not None
        above[row] = max(above[row], float(round(picture.ascent - base)))
        below[row] = max(below[row], float(round(picture.descent - (style.line - base))))
    tops, y = [], 0.0
    for row in range(wrapped.lines):
        tops.append(y + above[row])
        y += above[row] + style.line + below[row]
    moved = [replace(run, y=tops[round(run.y / style.line)]) for run in wrapped.runs]
    return moved, y
