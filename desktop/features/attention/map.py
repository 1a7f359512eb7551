"""A map: its texture, its axes with tokens, the row that is marked, the value under the pointer,
and the part of the text that large maps show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.features.attention.state import Head
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.head_maps import HeadMaps, MapPicture
from llm_lite.desktop.widgets.plots.axes import upright_name, upright_text
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text

ROWS, COLUMNS = mark("Query token"), mark("Key token")  # the names of the axes
MERE = 2.0  # pixels of a row that are too few to be hatched
LEAST = 16  # tokens that zooming ends at
ZOOM = 1.25  # a notch of the wheel


class MapWindow(Struct, frozen=True):
    """The part of a map that is shown: tokens that attend (rows), and those attended to
    (columns)."""

    rows: range
    columns: range

    @property
    def longest(self) -> int:
        """Return the number of tokens of the longer axis."""
        return max(len(self.rows), len(self.columns))


class AxisLabels(Struct, frozen=True):
    """The texts of the tokens of both axes, by position."""

    rows: Sequence[str]
    columns: Sequence[str]


def square(window: range) -> MapWindow:
    """Return a window with the same tokens on both axes."""
    return MapWindow(window, window)


def texture_of(picture: MapPicture) -> imgui.ImTextureRef:
    texture = picture.texture
    return imgui.ImTextureRef(texture) if isinstance(texture, int) else texture


def draw_head_map(
    ui: Ui,
    maps: HeadMaps,
    name: str,
    head: Head,
    window: MapWindow,
    side: float,
    *,
    marked: int | None = None,
) -> MapPicture:
    """Draw a square of `side` pixels with the positions of `window`, without labels; rows that are
    not computed are hatched."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    picture = maps.picture(name, *head, window.rows, window.columns, side)
    high = ImVec2(at.x + side, at.y + side)
    draw.add_rect_filled(at, high, ui.color("sunken"))
    causal = maps.layers[head[0]].is_causal
    draw_missing(ui, draw, at, side, window.rows, picture.missing, causal=causal)
    texture = texture_of(picture)
    draw.add_image(texture, at, high, ImVec2(*picture.low), ImVec2(*picture.high))
    if marked is not None and marked < window.rows.stop:
        row = max(marked, window.rows.start - 1)
        mark_row(ui, at, side, window.rows, row, draw, dims=is_written(maps, head))
    imgui.dummy(ImVec2(side, side))
    return picture


@lru_cache(64)  # thumbnails are alike
def hatching(
    side: float, rows: range, missing: tuple[tuple[int, int], ...], gap: float, causal: bool = True
) -> tuple[tuple[float, float, float, float], ...]:
    """Return lines (x, y, x, y) that rise to the right, `gap` apart, over rows that are not
    computed: across the map, or where it is causal as far as tokens can look back."""
    lines = []
    each = side / len(rows)
    for first, last in missing:
        upper = (max(first, rows.start) - rows.start) * each
        lower = (min(last, rows.stop) - rows.start) * each
        if lower - upper < MERE:
            continue
        most = lower + (lower if causal else side)
        for number in range(math.ceil(upper / gap), int(most / gap) + 1):
            total = number * gap  # of x and y on a line
            high, low = max(upper, total / 2 if causal else total - side), min(lower, total)
            if low - high > MERE:
                lines.append((total - low, low, total - high, high))
    return tuple(lines)


def draw_missing(
    ui: Ui, draw: imgui.ImDrawList, at: ImVec2, side: float, rows: range,
    missing: Sequence[tuple[int, int]], *, causal: bool,
) -> None:  # fmt: skip
    """Draw hatching over rows, so that what is not known is not taken for zeros."""
    color, thick, gap = ui.color("faint", 0.7), max(1.0, ui.u(0.25)), ui.u(1.75)
    x, y, line = at.x, at.y, draw.add_line
    for left, low, right, high in hatching(side, rows, tuple(missing), gap, causal):
        line((x + left, y + low), (x + right, y + high), color, thick)


def is_written(maps: HeadMaps, head: Head) -> bool:
    """Return whether the tokens of a map's rows are written one after the other; an encoder reads
    all of them at once."""
    layer = maps.layers[head[0]]
    return layer.is_causal or layer.cross


def mark_row(
    ui: Ui, at: ImVec2, side: float, rows: range, row: int, draw: imgui.ImDrawList, *, dims: bool
) -> None:
    """Mark a row; with `dims`, shade what comes after it, which had not been written yet."""
    each = side / len(rows)
    top = at.y + (row - rows.start) * each
    bottom = top + max(each, 1.0)
    rest = ImVec2(at.x + side, at.y + side)
    if dims:
        draw.add_rect_filled(ImVec2(at.x, bottom), rest, ui.color("panel", 0.8))
    if row < rows.start:
        return
    thick = max(1.0, ui.u(0.375))
    low = ImVec2(at.x, top - thick / 2)
    draw.add_rect(low, ImVec2(rest.x, bottom + thick / 2), ui.color("accent"), 0.0, thick)


class Gutters(Struct, frozen=True):
    """Room of the labels of a map's axes, in pixels: at its left, and above it."""

    left: float
    top: float


def gutters(ui: Ui, labels: AxisLabels | None, window: MapWindow, most: float) -> Gutters:
    """Return the room of labels that are tokens, at most `most` wide; without `labels` that of
    positions."""
    with ui.font(style="small"):
        if labels is None:
            wide = imgui.calc_text_size(f"{window.rows.stop:,}").x + ui.u(2)
            return Gutters(wide, ui.theme.size("small") + ui.u(0.5))
        sides = ((labels.rows, window.rows), (labels.columns, window.columns))
        widest = (
            max((imgui.calc_text_size(label_of(texts, at)).x for at in positions), default=0.0)
            for texts, positions in sides
        )
        left, top = (min(wide + ui.u(1.5), most) for wide in widest)
    return Gutters(left, top)


def names_room(ui: Ui) -> float:
    """Return how many pixels the name of an axis takes beside its labels."""
    return ui.theme.size("small") + ui.u(1)


def draw_axes(
    ui: Ui,
    labels: AxisLabels | None,
    window: MapWindow,
    at: ImVec2,
    side: float,
    room: Gutters,
    marked: int | None,
    draw: imgui.ImDrawList,
    *,
    first: bool = True,
    uppermost: bool = True,
    names: tuple[str, str] = (ROWS, COLUMNS),
) -> None:
    """Draw tokens at the left and, upright, above the map at `at`; without `labels` some positions.
    Beside them stand the `names` of rows and columns. Of maps beside each other the `first` has
    what is at the left, and of those one below the other the `uppermost` the name above."""
    down, across = (labels.rows, labels.columns) if labels is not None else (None, None)
    gap = names_room(ui)
    with ui.font(style="small"):
        _draw_columns(ui, across, window.columns, at, side, room.top, draw)
        if first:
            _draw_rows(ui, down, window.rows, at, side, room.left, marked, draw)
        if uppermost:
            name = tr(names[1])
            middle = at.x + (side - imgui.calc_text_size(name).x) / 2
            spot = ImVec2(round(max(middle, at.x)), round(at.y - room.top - gap))
            draw.add_text(spot, ui.color("muted"), name)
    if first:
        upright_name(ui, tr(names[0]), at.x - room.left - gap, at.y - room.top, at.y + side, draw)


def _draw_rows(
    ui: Ui, labels: Sequence[str] | None, rows: range, at: ImVec2, side: float, room: float,
    marked: int | None, draw: imgui.ImDrawList,
) -> None:  # fmt: skip
    size = ui.theme.size("small")
    for position, words, middle in _places(ui, labels, rows, side, room):
        width = imgui.calc_text_size(words).x
        spot = ImVec2(at.x - ui.u(1) - width, round(at.y + middle - size / 2))
        draw.add_text(spot, ui.color("accent" if position == marked else "muted"), words)


def _draw_columns(
    ui: Ui, labels: Sequence[str] | None, columns: range, at: ImVec2, side: float, room: float,
    draw: imgui.ImDrawList,
) -> None:  # fmt: skip
    size, color = ui.theme.size("small"), ui.color("muted")
    for _, words, middle in _places(ui, labels, columns, side, room):
        if labels is not None:
            upright_text(draw, words, color, at.x + middle - size / 2, at.y - ui.u(1))
            continue
        width = imgui.calc_text_size(words).x
        x = min(at.x + middle - width / 2, at.x + side - width)
        draw.add_text(ImVec2(round(max(x, at.x)), at.y - size - ui.u(0.5)), color, words)


def _places(
    ui: Ui, labels: Sequence[str] | None, axis: range, side: float, room: float
) -> Iterator[tuple[int, str, float]]:
    """Return the labels of an axis: a position, its words, and the middle of its row or column in
    pixels."""
    each = side / len(axis)
    for position in axis if labels is not None else _ticks(axis, side, ui.u(16)):
        middle = (position - axis.start + 0.5) * each
        if labels is None:
            yield position, f"{position:,}", middle
        else:
            yield position, fit(label_of(labels, position), room - ui.u(1)), middle


def label_of(labels: Sequence[str], position: int) -> str:
    words = labels[position] if position < len(labels) else f"#{position}"
    return visible(words)


def _ticks(window: range, side: float, least: float) -> list[int]:
    """Return round positions at least `least` pixels apart."""
    wanted = len(window) * least / side
    power = 10.0 ** math.floor(math.log10(max(wanted, 1.0)))
    step = int(next(power * i for i in (1, 2, 5, 10) if power * i >= max(wanted, 1.0)))
    first = -(-window.start // step) * step
    return list(range(first, window.stop, step))


def draw_pointer(
    ui: Ui,
    maps: HeadMaps,
    name: str,
    labels: AxisLabels,
    window: MapWindow,
    at: ImVec2,
    side: float,
    missing: Iterable[tuple[int, int]] = (),
    *,
    causal: bool = True,
) -> tuple[int, int] | None:
    """Draw lines through the pair under the pointer and a tooltip with its value; return (row,
    column). With `causal`, tokens do not see those behind them."""
    mouse, (rows, columns) = imgui.get_mouse_pos(), (window.rows, window.columns)
    row = rows.start + int((mouse.y - at.y) / side * len(rows))
    column = columns.start + int((mouse.x - at.x) / side * len(columns))
    if row not in rows or column not in columns or not imgui.is_item_hovered():
        return None
    draw_cross(ui, window, at, side, (row, column))
    lost = any(first <= row < last for first, last in missing)
    can_look = not causal or column <= row
    value = None if lost else maps.value(name, row, column)
    with ui.styled(window_padding=(ui.u(3), ui.u(2))):
        if imgui.begin_tooltip():
            asked, seen = label_of(labels.rows, row), label_of(labels.columns, column)
            text(ui, tr("{asked}  looks at  {seen}").format(asked=asked, seen=seen), bold=True)
            places = tr("token {row:,} at token {column:,}").format(row=row, column=column)
            text(ui, places, "muted", "small")
            text(ui, value_words(can_look, value, lost and row < maps.rows.start))
            imgui.end_tooltip()
    if value is None and can_look and not (lost and row < maps.rows.start):
        ui.redraw_in(0.03)
    return row, column


def value_words(can_look: bool, value: float | None, lost: bool) -> str:
    if not can_look:
        return tr("A token cannot look at what comes later.")
    if lost:
        return tr("Not computed: the query of this token is not kept.")
    if value is None:
        return "…"
    return f"{value:.1%}" if value >= 0.001 else f"{value * 100:.2g}%"


def draw_cross(ui: Ui, window: MapWindow, at: ImVec2, side: float, pair: tuple[int, int]) -> None:
    draw, color, thick = imgui.get_window_draw_list(), ui.color("text", 0.55), max(1.0, ui.u(0.25))
    high, wide = side / len(window.rows), side / len(window.columns)
    x = at.x + (pair[1] - window.columns.start) * wide
    y = at.y + (pair[0] - window.rows.start) * high
    for left, top in ((x, y), (x + wide, y + high)):
        draw.add_line(ImVec2(left, at.y), ImVec2(left, at.y + side), color, thick)
        draw.add_line(ImVec2(at.x, top), ImVec2(at.x + side, top), color, thick)


class AxisZoom(Struct):
    """The part of the tokens of an axis that is shown; `count` 0 shows all of them, as they
    grow."""

    start: float = 0.0
    count: float = 0.0

    def window(self, length: int) -> range:
        if not self.count or self.count >= length:
            return range(length)
        count = max(round(self.count), min(LEAST, length))
        start = min(max(round(self.start), 0), length - count)
        return range(start, start + count)

    def set(self, start: float, count: float, length: int) -> None:
        self.count = 0.0 if count >= length else max(count, LEAST)
        self.start = min(max(start, 0.0), max(length - count, 0.0))

    def pan(self, moved: float, length: int) -> None:
        """Move by so many tokens."""
        if self.count:
            self.set(self.start + moved, self.count, length)

    def scale(self, notches: float, share: float, length: int) -> None:
        """Scale about a place from 0 to 1 of what is shown."""
        start, now = self.window(length).start, self.count or float(length)
        count = min(max(now * ZOOM**-notches, LEAST), length)
        self.set(start + share * (now - count), count, length)


class MapZoom(Struct):
    """The zoom of all large maps: along the diagonal by `rows` alone, or of cross-attention a part
    of the target (`rows`) and one of the source (`columns`)."""

    rows: AxisZoom = field(default_factory=AxisZoom)
    columns: AxisZoom = field(default_factory=AxisZoom)

    def window(self, maps: HeadMaps) -> MapWindow:
        length, source = maps.length, source_length(maps)
        if source is None:
            return square(self.rows.window(length))
        return MapWindow(self.rows.window(length), self.columns.window(source))

    def show_all(self) -> None:
        self.rows, self.columns = AxisZoom(), AxisZoom()


def source_length(maps: HeadMaps) -> int | None:
    """Return the tokens of the source, where the maps are of cross-attention; None: columns are the
    rows' tokens."""
    layers = maps.layers
    return len(maps.column_tokens(0)) if layers and layers[0].cross else None


def zoom_of(ui: Ui) -> MapZoom:
    return ui.local(MapZoom)


def whole(maps: HeadMaps) -> MapWindow:
    """Return all tokens of both axes."""
    return MapZoom().window(maps)


def use_pointer(zoom: MapZoom, maps: HeadMaps, at: ImVec2, side: float) -> None:
    """Change the zoom about the pointer by the wheel; pan by dragging, along the diagonal where
    both axes have the same tokens."""
    io: Any = imgui.get_io()
    window, source = zoom.window(maps), source_length(maps)
    moved = (io.mouse_delta.x / side, io.mouse_delta.y / side)
    place = [(io.mouse_pos.x - at.x) / side, (io.mouse_pos.y - at.y) / side]
    across, down = (min(max(share, 0.0), 1.0) for share in place)
    if imgui.is_item_active():
        rows = sum(moved) / 2 if source is None else moved[1]
        zoom.rows.pan(-rows * len(window.rows), maps.length)
        if source is not None:
            zoom.columns.pan(-moved[0] * len(window.columns), source)
    if imgui.is_item_hovered() and io.mouse_wheel:
        share = (across + down) / 2 if source is None else down
        zoom.rows.scale(io.mouse_wheel, share, maps.length)
        if source is not None:
            zoom.columns.scale(io.mouse_wheel, across, source)
    imgui.set_item_key_owner(imgui.Key.mouse_wheel_y)
