"""Tables: columns as wide as what is in them where there is room, else words are wrapped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_lite.desktop.widgets.markdown.blocks import Spans, TableCells
from llm_lite.desktop.widgets.markdown.wrapping import Run, Style, Wrapped, spread, wrap
from llm_lite.desktop.widgets.ui import Face, Ui

ENDLESS = 1e6  # pixels: a cell on one line
KEPT = 4096  # cells whose lines are known
NARROW = 4.0  # text sizes that a column has, if that can be
BOLD: dict[Face, Face] = {"regular": "bold", "italic": "bold_italic"}


@dataclass(frozen=True, slots=True)
class Grid:
    runs: tuple[Run, ...]
    columns: tuple[float, ...]  # their edges
    rows: tuple[float, ...]

    @property
    def width(self) -> float:
        return self.columns[-1]

    @property
    def height(self) -> float:
        return self.rows[-1]


def lay_out_table(ui: Ui, cells: TableCells, style: Style) -> Grid:
    """Within the style's width."""
    rows = (tuple(map(_head, cells.rows[0])), *cells.rows[1:])
    pad_x, pad_y = ui.u(2.5), ui.u(1.25)
    widths = _widths(ui, rows, len(cells.aligns), style, pad_x)
    columns = [0.0]
    for width in widths:
        columns.append(columns[-1] + width + 2 * pad_x)
    runs: list[Run] = []
    edges = [0.0]
    for row in rows:
        tall = style.line
        for column, spans in enumerate(row[: len(widths)]):
            placed, height = _cell(ui, spans, replace(style, width=widths[column]))
            x, y = columns[column] + pad_x, edges[-1] + pad_y
            free = widths[column] - max((r.x + r.width for r in placed), default=0.0)
            runs += _aligned(placed, cells.aligns[column], widths[column], free, x, y)
            tall = max(tall, height)
        edges.append(edges[-1] + tall + 2 * pad_y)
    return Grid(tuple(runs), tuple(columns), tuple(edges))


def _head(spans: Spans) -> Spans:
    return tuple(replace(span, style=BOLD.get(span.style, span.style)) for span in spans)


def _cell(ui: Ui, spans: Spans, style: Style) -> tuple[list[Run], float]:
    runs, height = spread(ui, _wrapped(ui, spans, style), style)
    offset = (style.line - style.size) / 2
    return [replace(run, y=run.y + offset) for run in runs], height


def _wrapped(ui: Ui, spans: Spans, style: Style) -> Wrapped:
    """Of a table that grows, most cells are as they were."""
    known = ui.memory.setdefault("table_cells", {})
    key = (spans, style.width, style.size, style.epoch, ui.theme.text)
    found: Wrapped | None = known.get(key)
    if found is None:
        if len(known) >= KEPT:
            known.clear()
        found = known[key] = wrap(ui, spans, style)
    return found


def _widths(
    ui: Ui, rows: tuple[tuple[Spans, ...], ...], count: int, style: Style, pad: float
) -> list[float]:
    """Of each column, without its room at the sides. Wide columns give what all lack."""
    wanted = [style.size] * count
    for row in rows:
        for column, spans in enumerate(row[:count]):
            wrapped = _wrapped(ui, spans, replace(style, width=ENDLESS))
            ends = (run.x + run.width for run in wrapped.runs)
            wanted[column] = max(wanted[column], float(int(max(ends, default=0.0)) + 2))
    room = max(style.width - 2 * pad * count, count * 1.0)
    if sum(wanted) <= room:
        return wanted
    least = min(NARROW * style.size, room / count)
    most = _level(wanted, room)
    return [float(int(max(min(each, most), min(each, least)))) for each in wanted]


def _level(wanted: list[float], room: float) -> float:
    """The width that none may exceed so that all together fit."""
    left, rest = room, sorted(wanted)
    while rest and rest[0] <= left / len(rest):
        left -= rest.pop(0)
    return left / len(rest) if rest else room


def _aligned(
    runs: list[Run], align: str, width: float, free: float, x: float, y: float
) -> list[Run]:
    """At the place of the cell, each line moved by itself."""
    if align == "left" or not runs:
        return [replace(run, x=run.x + x, y=run.y + y) for run in runs]
    ends: dict[float, float] = {}
    for run in runs:
        ends[run.y] = max(ends.get(run.y, 0.0), run.x + run.width)
    share = 1.0 if align == "right" else 0.5
    return [
        replace(run, x=run.x + x + round((width - ends[run.y]) * share), y=run.y + y)
        for run in runs
    ]
