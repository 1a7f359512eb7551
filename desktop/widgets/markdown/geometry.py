"""Positions on a page: from a point to a character and back. Points are in pixels from the upper
left corner of the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from imgui_bundle import imgui

from llm_lite.desktop.widgets.markdown.characters import (
    Same,
    Span,
    block_spans,
    is_stop,
    run_spans,
    shown_text,
)
from llm_lite.desktop.widgets.markdown.layout import LaidText
from llm_lite.desktop.widgets.markdown.table import offset
from llm_lite.desktop.widgets.markdown.wrapping import CODE_SCALE, Run, ascent
from llm_lite.desktop.widgets.ui import Rect, Ui

LINE = 1.4  # of what a selection fills, in text sizes
Placed = Sequence[tuple[float, LaidText]]  # y, block


@lru_cache(maxsize=256)
def _spans_of(laid: Same) -> list[Span]:
    return run_spans(laid.one.block, laid.one.runs)


def character_at(ui: Ui, placed: Placed, x: float, y: float, inside: bool = False) -> int:
    """Return the position in the page's text that is nearest to a point; with `inside` that of the
    character that the point is in, not of the nearest border."""
    spans = block_spans(laid.block for _, laid in placed)
    if not spans:
        return 0

    def away(number: int) -> float:
        top, laid = placed[number]
        return max(top - y, y - top - laid.height, 0.0)

    nearest = min(range(len(spans)), key=away)
    top, laid = placed[nearest]
    return spans[nearest][0] + _in_block(ui, laid, x, y - top, inside)


def _in_block(ui: Ui, laid: LaidText, x: float, y: float, inside: bool) -> int:
    spans = _spans_of(Same(laid))
    x += offset(ui, laid.grid)
    numbers = _in_cell(laid, x, y)
    if not numbers:
        return 0

    def away(number: int) -> tuple[float, float]:
        run = laid.runs[number]
        low, high = _band(ui, laid, run)
        above = max(low - y, y - high, 0.0)
        return above, max(run.x - x, x - run.x - run.width, 0.0)

    nearest = min(numbers, key=away)
    run, (first, end) = laid.runs[nearest], spans[nearest]
    if run.picture is not None:
        return first if inside or x < run.x + run.width / 2 else end
    return first + _in_run(ui, laid, run, x - run.x, inside)


def _in_cell(laid: LaidText, x: float, y: float) -> list[int]:
    """Return the runs among which to look: of a table those of the cell, or else of the row."""
    everything = list(range(len(laid.runs)))
    grid = laid.grid
    if grid is None:
        return everything

    def part(edges: Sequence[float], at: float) -> int:
        return max(sum(edge <= at for edge in edges[1:-1]), 0)

    row, column = part(grid.rows, y), part(grid.columns, x - laid.left)
    beside = [n for n in everything if part(grid.rows, laid.runs[n].y) == row]
    inside = [n for n in beside if part(grid.columns, laid.runs[n].x - laid.left) == column]
    return inside or beside or everything


def _in_run(ui: Ui, laid: LaidText, run: Run, x: float, inside: bool) -> int:
    """Return the place between two characters that is nearest to `x` from the beginning of the
    run."""
    stops = [at for at in range(len(run.text) + 1) if is_stop(run.text, at)]
    low, high = 0, len(stops) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _width(ui, laid, run, stops[middle]) <= x:
            low = middle
        else:
            high = middle
    if inside:
        return stops[low]
    left, right = (_width(ui, laid, run, stops[n]) for n in (low, high))
    return stops[low] if x - left < right - x else stops[high]


def _width(ui: Ui, laid: LaidText, run: Run, count: int) -> float:
    """Return the width of the first `count` characters."""
    if count <= 0:
        return 0.0
    if count >= len(run.text):
        return run.width
    scaled = run.kind != "text" and laid.block.kind != "code"
    size = round(laid.size * CODE_SCALE) if scaled else laid.size
    ui.push_font(run.style, size)
    wide = float(imgui.calc_text_size(run.text[:count]).x)
    imgui.pop_font()
    return wide


def _band(ui: Ui, laid: LaidText, run: Run) -> tuple[float, float]:
    """Return the upper and lower edge of what a selection fills behind a run."""
    size = laid.size
    line = ui.theme.line if size == ui.theme.text else float(round(size * LINE))
    if laid.block.kind == "code":
        line = float(round(size * 1.45))
    low = run.y - (line - size) / 2
    high = low + line
    if run.picture is not None:
        base = run.y + ascent(ui, size)
        low = min(low, base - run.picture.ascent)
        high = max(high, base + run.picture.descent)
    return low, high


def block_rects(ui: Ui, laid: LaidText, low: int, high: int) -> list[Rect]:
    """Return what to fill behind the characters of a block from `low` to `high`, from its upper
    edge."""
    found: list[Rect] = []
    text, aside = shown_text(laid.block), offset(ui, laid.grid)
    for run, (first, end) in zip(laid.runs, _spans_of(Same(laid)), strict=True):
        if end <= low or first >= high:
            continue
        left, right = 0.0, run.width
        if run.picture is None:
            left = _width(ui, laid, run, low - first)
            right = _width(ui, laid, run, high - first)
        if high > end and text[end : end + 1] == "\n" and laid.grid is None:
            right += ui.u(1)  # the break of the line is selected too
        top, bottom = _band(ui, laid, run)
        found.append((run.x + left - aside, top, run.x + right - aside, bottom))
    return _joined(found, ui.u(3))


def _joined(rects: list[Rect], most: float) -> list[Rect]:
    """Join neighbours on a line, also over the room around code."""
    made: list[Rect] = []
    for rect in rects:
        last = made[-1] if made else None
        if last and (last[1], last[3]) == (rect[1], rect[3]) and 0 <= rect[0] - last[2] <= most:
            made[-1] = (last[0], last[1], rect[2], last[3])
        else:
            made.append(rect)
    return made


def caret(ui: Ui, placed: Placed, at: int) -> tuple[float, float, float] | None:
    """Return x, and the upper and lower edge of the line, of a position."""
    spans = block_spans(laid.block for _, laid in placed)
    for (top, laid), (first, end) in zip(placed, spans, strict=True):
        if at > end:
            continue
        for run, (start, stop) in zip(laid.runs, _spans_of(Same(laid)), strict=True):
            if at - first <= stop:
                low, high = _band(ui, laid, run)
                x = run.x + _width(ui, laid, run, max(at - first - start, 0))
                x -= offset(ui, laid.grid)
                return x, top + low, top + high
        return 0.0, top, top + laid.height
    return None
