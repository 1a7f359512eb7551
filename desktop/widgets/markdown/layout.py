"""Blocks at their places: what is measured once and kept, for a width and a text size."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.widgets.markdown.blocks import Block, Container, Spans, StyledSpan
from llm_lite.desktop.widgets.markdown.table import Grid, lay_out_table
from llm_lite.desktop.widgets.markdown.wrapping import Run, Style, Wrapped, ascent, spread, wrap
from llm_lite.desktop.widgets.markup.formulas import Formulas
from llm_lite.desktop.widgets.markup.sheet import Picture
from llm_lite.desktop.widgets.ui import Face, Ui

HEADINGS = (22 / 15, 18 / 15, 16 / 15)  # text sizes, by level; deeper ones are as large as the text
DISPLAY = 17 / 15  # of a formula that stands alone
BOLD: dict[Face, Face] = {"regular": "bold", "italic": "bold_italic"}

Wrap = Callable[[Ui, Spans, Style], Wrapped]


class LaidText(Struct, frozen=True):
    """A block at its place: `height` is without the gap below."""

    block: Block
    runs: tuple[Run, ...]
    height: float
    size: float  # text size, pixels
    left: float = 0.0  # where the block begins, behind bars and markers
    grid: Grid | None = None  # of a table
    offsets: tuple[int, ...] = ()  # of a code's runs, in characters
    numbers: tuple[float, ...] = ()  # where the lines of code begin that have a number


class Setting(Struct, frozen=True):
    """The settings that a layout depends on beside its text."""

    width: float
    numbers: bool = False  # beside the lines of code
    formulas: Formulas | None = None


def indent(ui: Ui, container: Container) -> float:
    if container.kind == "quote":
        return ui.u(4)
    return max(ui.u(5), float(round(container.wide * ui.theme.text * 0.5)) + ui.u(1.5))


def gap(ui: Ui, before: Block | None, block: Block) -> float:
    """Return the pixels above a block that follows another."""
    if before is None:
        return 0.0
    if block.kind == "heading":
        return ui.u(6) if block.level <= 2 else ui.u(5)
    if before.kind == "heading":
        return ui.u(2)
    if block.tight and (block.joined or (before.path and any(block.markers))):
        return ui.u(1)
    return ui.u(3)


def lay_out(ui: Ui, block: Block, setting: Setting, wrap_with: Wrap = wrap) -> LaidText:
    """One block; `wrap_with` may know it from when it was shorter."""
    left = sum(indent(ui, container) for container in block.path)
    left = min(left, setting.width / 2)  # of what is nested without end, something stays in sight
    room = max(setting.width - left, ui.theme.text * 2)
    if block.kind == "rule":
        return LaidText(block, (), ui.u(2), ui.theme.text, left)
    if block.kind == "code":
        return _code(ui, block, left, room, setting, wrap_with)
    if block.kind == "table" and block.cells is not None:
        style = _style(block, room, ui.theme.size("body"), ui.theme.line, setting)
        grid = lay_out_table(ui, block.cells, style)
        runs = tuple(_moved(run, left, 0.0) for run in grid.runs) if left else grid.runs
        height = grid.height + (ui.u(3) if grid.over else 0.0)  # with a bar to scroll
        return LaidText(block, runs, height, style.size, left, grid)
    if block.kind == "math":
        found = _display(ui, block, left, room, setting)
        if found is not None:
            return found
    return _text(ui, block, left, room, setting, wrap_with)


def _style(block: Block, width: float, size: float, line: float, setting: Setting) -> Style:
    formulas = setting.formulas
    if formulas is None or not block.math:
        return Style(width, size, line)
    known = formulas

    def picture(span: StyledSpan, most: float) -> Picture | None:
        return known.picture(span.text, size, most, span.kind == "display")

    return Style(width, size, line, True, picture, known.epoch)


def _text(
    ui: Ui, block: Block, left: float, room: float, setting: Setting, wrap_with: Wrap
) -> LaidText:
    size, line, spans = ui.theme.size("body"), ui.theme.line, block.spans
    if block.kind == "heading":
        if block.level <= len(HEADINGS):
            size = float(round(HEADINGS[block.level - 1] * ui.theme.text))
        line = float(round(size * 1.4))
        spans = tuple(replace(s, style=BOLD.get(s.style, s.style)) for s in spans)
    style = _style(block, room, size, line, setting)
    wrapped = wrap_with(ui, spans, style)
    runs, height = spread(ui, wrapped, style)
    offset = (line - size) / 2
    return LaidText(block, tuple(_moved(run, left, offset) for run in runs), height, size, left)


def _moved(run: Run, x: float, y: float) -> Run:
    return Run(
        run.x + x, run.y + y, run.text, run.style, run.width, run.kind, run.link, run.strike,
        run.picture,
    )  # fmt: skip


def _display(ui: Ui, block: Block, left: float, room: float, setting: Setting) -> LaidText | None:
    """Lay out a formula in the middle of its column; return None while it is not set."""
    size = float(round(DISPLAY * ui.theme.text))
    formulas = setting.formulas
    picture = formulas.picture(block.spans[0].text, size, room, True) if formulas else None
    if picture is None:
        return None
    pad, x = ui.u(1), left + max(0.0, float(round((room - picture.width) / 2)))
    top = pad + float(round(picture.ascent)) - ascent(ui, size)
    run = Run(x, top, block.text, "mono", picture.width, "display", picture=picture)
    height = float(round(picture.ascent + picture.descent)) + 2 * pad
    return LaidText(block, (run,), height, size, left)


def _code(
    ui: Ui, block: Block, left: float, room: float, setting: Setting, wrap_with: Wrap
) -> LaidText:
    size, pad, top = ui.theme.size("mono"), ui.u(3), ui.u(9)
    line, text = float(round(size * 1.45)), block.text
    gutter = 0.0
    if setting.numbers:
        digits = max(2, len(str(text.count("\n") + 1)))
        gutter = float(round(digits * size * 0.6)) + ui.u(3)
    width = max(room - 2 * pad - gutter, size * 4)
    wrapped = wrap_with(ui, block.spans, Style(width, size, line, boxed=False))
    offset = top + (line - size) / 2
    runs = tuple(_moved(run, left + pad + gutter, offset) for run in wrapped.runs)
    numbers: tuple[float, ...] = ()
    if setting.numbers:
        rows = [0, *(m.row for m in wrapped.marks[1:] if text[m.offset - 1 : m.offset] == "\n")]
        numbers = tuple(row * line + offset for row in rows)
    height = top + wrapped.lines * line + ui.u(2.5)
    return LaidText(block, runs, height, size, left, None, _offsets(text, runs), numbers)


def _offsets(text: str, runs: tuple[Run, ...]) -> tuple[int, ...]:
    """Return where each run begins in the code that they show; breaks of its lines are in none."""
    found, at = [], 0
    for run in runs:
        while text[at : at + 1] == "\n":
            at += 1
        found.append(at)
        at += len(run.text)
    return tuple(found)
