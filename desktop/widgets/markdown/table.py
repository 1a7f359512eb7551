"""Tables: columns as wide as what is in them where there is room, else words are wrapped; where
that does not do, they are wider than their column and scroll sideways."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.records import replace
from llm_lite.desktop.widgets.markdown.blocks import Spans, TableCells
from llm_lite.desktop.widgets.markdown.wrapping import Run, Style, Wrapped, spread, wrap
from llm_lite.desktop.widgets.ui import Face, Ui

ENDLESS = 1e6  # pixels: a cell on one line
KEPT = 4096  # cells whose lines are known
NARROW, WIDE = 5.0, 16.0  # text sizes: columns get no narrower; and no wider where a table scrolls
MOST_SCROLLED = 64  # tables whose offset is known
NOTCH = 6.0  # text sizes that a notch of the wheel moves
BOLD: dict[Face, Face] = {"regular": "bold", "italic": "bold_italic"}


class _Row(Struct, frozen=True, eq=False):
    source: tuple[Spans, ...]  # as it was parsed
    cells: tuple[Spans, ...]
    wanted: tuple[float, ...]  # widths


class Grid(Struct, frozen=True):
    runs: tuple[Run, ...]
    columns: tuple[float, ...]  # their edges
    rows: tuple[float, ...]
    sources: tuple[_Row, ...] = ()  # what the rows were made of
    counts: tuple[int, ...] = ()  # runs up to each row
    over: float = 0.0  # pixels that are out of sight, as the table is wider than its column

    @property
    def width(self) -> float:
        return self.columns[-1]

    @property
    def height(self) -> float:
        return self.rows[-1]


class Tables(Struct):
    """The table that was laid out last and what it was fitted to, wrapped cells, and the offset of
    each table that was scrolled, in pixels, by the identity of its grid."""

    fit: object = None
    last: Grid | None = None
    cells: dict[object, Wrapped] = field(default_factory=dict)
    scrolled: OrderedDict[int, tuple[Grid, float]] = field(default_factory=OrderedDict)


def lay_out_table(ui: Ui, cells: TableCells, style: Style) -> Grid:
    """Lay out cells within the style's width. Rows at the beginning that the last table, one that
    grows, had too, are taken from there where the columns are as wide as they were."""
    fit = (cells.aligns, style.width, style.size, style.epoch, ui.theme.text)
    kept = ui.local(Tables)
    before = kept.last if kept.fit == fit else None
    sources = _sources(ui, cells, style, before)
    pad_x, pad_y = ui.u(2.5), ui.u(1.25)
    widths = _widths(sources, len(cells.aligns), style, pad_x)
    columns = [0.0]
    for width in widths:
        columns.append(columns[-1] + width + 2 * pad_x)
    same = _same(before, sources) if before and before.columns == tuple(columns) else 0
    runs: list[Run] = list(before.runs[: before.counts[same - 1]]) if before and same else []
    edges = list(before.rows[: same + 1]) if before and same else [0.0]
    counts = list(before.counts[:same]) if before and same else []
    for row in sources[same:]:
        tall = style.line
        for column, spans in enumerate(row.cells[: len(widths)]):
            placed, height = _cell(ui, spans, replace(style, width=widths[column]))
            x, y = columns[column] + pad_x, edges[-1] + pad_y
            runs += _aligned(placed, cells.aligns[column], widths[column], x, y)
            tall = max(tall, height)
        edges.append(edges[-1] + tall + 2 * pad_y)
        counts.append(len(runs))
    over = max(columns[-1] - max(style.width, 1.0), 0.0)
    grid = Grid(tuple(runs), tuple(columns), tuple(edges), sources, tuple(counts), over)
    kept.fit, kept.last = fit, grid
    return grid


def _sources(ui: Ui, cells: TableCells, style: Style, before: Grid | None) -> tuple[_Row, ...]:
    """Each row with what its cells would like to have."""
    known = before.sources if before else ()
    made: list[_Row] = []
    for number, row in enumerate(cells.rows):
        if number < len(known) and known[number].source is row:
            made.append(known[number])
            continue
        shown = tuple(map(_head, row)) if number == 0 else row
        wanted = tuple(_wanted(ui, spans, style) for spans in shown)
        made.append(_Row(row, shown, wanted))
    return tuple(made)


def _same(before: Grid, sources: tuple[_Row, ...]) -> int:
    """Return how many first rows are those of before."""
    count = 0
    for old, new in zip(before.sources, sources, strict=False):
        if old is not new:
            break
        count += 1
    return count


def _wanted(ui: Ui, spans: Spans, style: Style) -> float:
    """Return the width of a cell on one line."""
    wrapped = _wrapped(ui, spans, replace(style, width=ENDLESS))
    return float(int(max((run.x + run.width for run in wrapped.runs), default=0.0)) + 2)


def _head(spans: Spans) -> Spans:
    return tuple(replace(span, style=BOLD.get(span.style, span.style)) for span in spans)


def _cell(ui: Ui, spans: Spans, style: Style) -> tuple[list[Run], float]:
    runs, height = spread(ui, _wrapped(ui, spans, style), style)
    offset = (style.line - style.size) / 2
    return [replace(run, y=run.y + offset) for run in runs], height


def _wrapped(ui: Ui, spans: Spans, style: Style) -> Wrapped:
    """Wrap a cell; in a table that grows, most cells are as they were."""
    known = ui.local(Tables).cells
    key = (spans, style.width, style.size, style.epoch, ui.theme.text)
    found = known.get(key)
    if found is None:
        if len(known) >= KEPT:
            known.clear()
        found = known[key] = wrap(ui, spans, style)
    return found


def _widths(rows: tuple[_Row, ...], count: int, style: Style, pad: float) -> list[float]:
    """Return the width of each column, without its room at the sides. Wide columns give what all
    lack; where they would become too narrow to be read, the table is wider than its place."""
    wanted = [style.size] * count
    for row in rows:
        for column, width in enumerate(row.wanted[:count]):
            if width > wanted[column]:
                wanted[column] = width
    room = max(style.width - 2 * pad * count, count * 1.0)
    if sum(wanted) <= room:
        return wanted
    least = NARROW * style.size
    if sum(min(each, least) for each in wanted) > room:
        return [float(int(min(each, WIDE * style.size))) for each in wanted]
    most = _level(wanted, room)
    return [float(int(max(min(each, most), min(each, least)))) for each in wanted]


def _level(wanted: list[float], room: float) -> float:
    """Return the width that none may exceed so that all together fit."""
    left, rest = room, sorted(wanted)
    while rest and rest[0] <= left / len(rest):
        left -= rest.pop(0)
    return left / len(rest) if rest else room


def _aligned(runs: list[Run], align: str, width: float, x: float, y: float) -> list[Run]:
    """Move runs to the place of the cell, each line by itself."""
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


def offset(ui: Ui, grid: Grid | None) -> float:
    """Return the pixels of a table that are out of sight at the left."""
    if grid is None or grid.over <= 0:
        return 0.0
    held = ui.local(Tables).scrolled.get(id(grid))
    return min(held[1], grid.over) if held is not None and held[0] is grid else 0.0


def scroll_to(ui: Ui, grid: Grid, wanted: float) -> None:
    known = ui.local(Tables).scrolled
    known[id(grid)] = (grid, float(round(min(max(wanted, 0.0), grid.over))))
    known.move_to_end(id(grid))
    if len(known) > MOST_SCROLLED:
        known.popitem(last=False)


def draw_scroll(ui: Ui, draw: Any, grid: Grid, x: float, y: float, name: str) -> None:
    """Draw the bar below a table, whose left upper corner is given, and follow what a person does
    with it, or with the wheel over the table."""
    thick, room = ui.u(1), grid.width - grid.over
    top = y + grid.height + ui.u(1)
    now = offset(ui, grid)
    long = max(room * room / grid.width, ui.u(6))
    at = x + (room - long) * now / grid.over
    back = imgui.get_cursor_screen_pos()
    imgui.set_cursor_screen_pos(ImVec2(x, top - ui.u(0.5)))
    imgui.invisible_button(f"{name}.scroll", ImVec2(room, thick + ui.u(1)))
    ui.mark(f"{name}.scroll")
    io: Any = imgui.get_io()
    lit = imgui.is_item_active() or imgui.is_item_hovered()
    if imgui.is_item_active():
        now += io.mouse_delta.x * grid.over / max(room - long, 1.0)
        scroll_to(ui, grid, now)
    over = imgui.is_window_hovered() and ui.at_pointer((x, y, x + room, top + thick))
    if over and io.mouse_wheel_h:
        scroll_to(ui, grid, now - io.mouse_wheel_h * NOTCH * ui.theme.text)
    imgui.set_cursor_screen_pos(back)
    low, high = ImVec2(at, top), ImVec2(at + long, top + thick)
    draw.add_rect_filled(low, high, ui.color("muted" if lit else "border"), thick / 2)
