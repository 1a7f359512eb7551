"""Greedy line breaking of styled spans. Of a text that grows, only the last lines are broken again.

Positions are in pixels from the upper left corner of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from imgui_bundle import imgui

from llm_lite.desktop.widgets.markdown import StyledSpan
from llm_lite.desktop.widgets.ui import Face, Ui

KEPT = 4  # texts that grow at the same time
CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uf900-\ufaff\uff00-\uffef\U0001f000-\U0003ffff"
# Korean is broken between words, Chinese and Japanese between any two characters.
WORD = re.compile(rf"\n|[ \t]+|[{CJK}]|[^\s{CJK}]+|\s")
INSIDE = -1  # offset of what is not the beginning of a word


@dataclass(frozen=True, slots=True)
class Run:
    x: float
    y: float
    text: str
    style: Face
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Line number `row` begins with the word at `offset` of a span, whose tabs are expanded."""

    span: int
    offset: int
    row: int
    runs: int  # in the lines above


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What was broken into lines, and how."""

    spans: tuple[StyledSpan, ...]
    fit: tuple[float, ...]  # what else the lines depend on
    runs: list[Run]
    lines: int
    marks: list[Mark]  # the first stands for the beginning of the text

    def common(self, spans: tuple[StyledSpan, ...], fit: tuple[float, ...]) -> int:
        """How many first marks hold for `spans` too; 0 for another text.

        A word can only grow if it is the last one, so only the line that it is in is broken again.
        """
        mine, first, last = self.spans, 0, len(self.spans) - 1
        if fit != self.fit or (len(spans) > 1) != (len(mine) > 1):
            return 0
        while first <= min(last, len(spans) - 1) and mine[first] == spans[first]:
            first += 1
        if first == last < len(spans) and _continues(mine[last], spans[last]):
            first += 1
        count = len(self.marks) - 1
        while count > 1 and self.marks[count - 1].span >= first:
            count -= 1
        return max(count, 1) if first else 0


def _continues(before: StyledSpan, span: StyledSpan) -> bool:
    return before.style == span.style and span.text.startswith(before.text)


class Wrapping:
    """Breaks texts that grow; it knows the last few."""

    def __init__(self) -> None:
        self._last: list[Wrapped] = []

    def wrap(
        self, ui: Ui, spans: tuple[StyledSpan, ...], width: float, size: float, line: float
    ) -> Wrapped:
        """As the function `wrap`; the more of `spans` was wrapped before, the sooner."""
        fit = (width, size, line, ui.theme.text)
        alike = [one for one in self._last if one.common(spans, fit)]
        before = max(alike, key=lambda one: one.common(spans, fit), default=None)
        found = wrap(ui, spans, width, size, line, before)
        others = [one for one in self._last if one is not before]
        self._last = [*others[1 - KEPT :], found]
        return found


def wrap(
    ui: Ui,
    spans: tuple[StyledSpan, ...],
    width: float,
    size: float,
    line: float,
    before: Wrapped | None = None,
) -> Wrapped:
    """`spans` in lines of `width` pixels, `line` apart, with text of `size` pixels. What they have
    in common with `before` is taken from there."""
    fit = (width, size, line, ui.theme.text)
    common = before.common(spans, fit) if before else 0
    marks = before.marks[:common] if before and common else [Mark(0, 0, 0, 0)]
    runs = before.runs[: marks[-1].runs] if before else []
    x, row, start, text = 0.0, marks[-1].row, 0.0, ""
    style: Face = "regular"

    def flush() -> None:
        nonlocal text
        if text:
            runs.append(Run(start, row * line, text, style, x - start))
        text = ""

    for number, offset, word, face, advance in _words(ui, spans, width, size, marks[-1]):
        if not word:  # room around a word of code
            flush()
            x += advance
            continue
        if word == "\n" or (x + advance > width and not word.isspace() and x > 0):
            flush()
            x, row = 0.0, row + 1
            if offset != INSIDE:
                marks.append(Mark(number, offset + (word == "\n"), row, len(runs)))
            if word == "\n":
                continue
        if word.isspace() and x == 0 and row and face != "mono":
            continue
        if face != style or not text:
            flush()
            start, style = x, face
        text += word
        x += advance
    flush()
    return Wrapped(spans, fit, runs, row + 1, marks)


def _words(
    ui: Ui, spans: tuple[StyledSpan, ...], width: float, size: float, mark: Mark
) -> Iterator[tuple[int, int, str, Face, float]]:
    """From a mark on: span and offset, unbreakable pieces with their face and advance; longer than
    a line only by one character."""
    for number, span in enumerate(spans[mark.span :], mark.span):
        at = mark.offset if number == mark.span else 0
        apart = span.style == "mono" and len(spans) > 1
        scale = round(size * 14 / 15) if apart else size
        if apart and not (mark.row and number == mark.span):
            yield number, INSIDE, "", "mono", ui.u(1)
        imgui.push_font(ui.fonts[span.style], scale)
        pieces: list[tuple[int, int, str, Face, float]] = []
        for word in WORD.findall(span.text.expandtabs(4), at):
            advance = imgui.calc_text_size(word).x if word != "\n" else 0.0
            if advance <= width:
                pieces.append((number, at, word, span.style, advance))
            else:
                wide = [(c, imgui.calc_text_size(c).x) for c in word]
                pieces += [
                    (number, INSIDE if place else at, c, span.style, each)
                    for place, (c, each) in enumerate(wide)
                ]
            at += len(word)
        imgui.pop_font()
        yield from pieces
        if apart:
            yield number, INSIDE, "", "mono", ui.u(1)
