"""The map of the cache: a row for every layer that owns one, a column for every position."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.colors import CacheWindow, positions_of
from llm_lite.desktop.features.cache.model import PointAt
from llm_lite.desktop.features.cache.rows import OVERVIEW, Rows, rows_of
from llm_lite.desktop.features.cache.state import reused_positions
from llm_lite.desktop.features.cache.tooltip import draw_tip
from llm_lite.desktop.features.cache.window import CacheZoom, look, pan, wheel, window_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

LOWEST_ROW, HIGHEST_ROW = 1.25, 5.0  # spacing units
STRIP = 14.0  # spacing units of a row that stands for several layers, at most
LAYER_AXIS, TOKEN_AXIS, PLACE_AXIS = mark("layer"), mark("token"), mark("place")
SPACED = 7.0  # pixels of a row from which there is a line between rows
TOKENS = 7.0  # spacing units a column needs to carry its token


class MapFrame(Struct, frozen=True):
    """Where the map lies on the screen: its rows from `at`, each `row` pixels tall, for the first
    layer of each of `groups`."""

    at: ImVec2
    width: float
    row: float
    layers: tuple[CacheLayerInfo, ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def height(self) -> float:
        return self.row * len(self.layers)


def draw_map(state: AppState, ui: Ui, zoom: CacheZoom, height: float) -> list[Action]:
    """Overview, axis and rows, about `height` pixels tall, as wide as there is room."""
    assert state.model is not None
    every, groups = state.model.cache.layers, strips(state)
    layers = tuple(every[group[0]] for group in groups)
    gutter = _gutter(ui, [group_label(every, group) for group in groups])
    room, corner = imgui.get_content_region_avail().x, imgui.get_cursor_screen_pos()
    width = float(max(round(room - gutter - ui.u(1)), 32))
    window = window_of(state, zoom, int(width))
    rows = rows_of(state, ui, window)
    left = float(round(corner.x + gutter))
    top = _draw_overview(state, ui, rows, zoom, window, ImVec2(left, round(corner.y)))
    axis = ui.theme.size("small") + ui.u(2)
    highest = STRIP if len(groups) < len(every) else HIGHEST_ROW
    each = (height - (top - corner.y) - axis) / len(layers)
    each = float(round(min(max(each, ui.u(LOWEST_ROW)), ui.u(highest))))
    frame = MapFrame(ImVec2(left, top + axis), width, each, layers, groups)
    actions = _draw_rows(state, ui, rows, zoom, window, frame)
    _draw_axis(state, ui, window, frame, top)
    _draw_labels(state, ui, frame)
    imgui.set_cursor_screen_pos(ImVec2(corner.x, frame.at.y + frame.height + ui.u(1)))
    imgui.dummy(ImVec2(room, 1))
    return actions


def strips(state: AppState) -> tuple[tuple[int, ...], ...]:
    """Numbers of the layers that a row of the map stands for: those that keep the same positions,
    where the colours do not differ from layer to layer."""
    assert state.model is not None
    layers = state.model.cache.layers
    if state.cache.by not in ("owner", "age"):
        return tuple((number,) for number in range(len(layers)))
    groups: dict[tuple[int, int], list[int]] = {}
    for number, layer in enumerate(layers):
        groups.setdefault((layer.rows, layer.window or 0), []).append(number)
    return tuple(tuple(group) for group in groups.values())


def group_label(layers: tuple[CacheLayerInfo, ...], group: tuple[int, ...]) -> str:
    """The numbers of its layers, or how many of all they are where these do not follow on."""
    if len(group) == 1:
        return label(layers[group[0]])
    if group[-1] - group[0] + 1 > len(group):
        words = tr("{n} of {whole}").format(n=len(group), whole=len(layers))
    else:
        words = f"{layers[group[0]].layer}–{layers[group[-1]].layer}"
    shared = sum(len(layers[number].shared_with) for number in group)
    return f"{words} +{shared}" if shared else words


def _gutter(ui: Ui, labels: list[str]) -> float:
    with ui.font(style="small"):
        widest = max(imgui.calc_text_size(words).x for words in (tr(LAYER_AXIS), *labels))
    return float(math.ceil(widest)) + ui.u(2)


def label(layer: CacheLayerInfo) -> str:
    """Its number, and how many more layers read it."""
    return f"{layer.layer} +{len(layer.shared_with)}" if layer.shared_with else str(layer.layer)


def _draw_overview(
    state: AppState, ui: Ui, rows: Rows, zoom: CacheZoom, window: CacheWindow, at: ImVec2
) -> float:
    """The whole context in a line, with what is in sight outlined; returns its lower end."""
    assert state.model is not None
    draw, height = imgui.get_window_draw_list(), ui.u(2.5)
    context, width = state.model.context, float(window.pixels)
    scale = width / context
    end = ImVec2(at.x + width, at.y + height)
    rows.picture.draw(draw, at, end, OVERVIEW)
    imgui.set_cursor_screen_pos(at)
    imgui.invisible_button("kv.overview", ImVec2(width, height))
    ui.mark("kv_cache.overview")
    if imgui.is_item_active():
        middle = (imgui.get_mouse_pos().x - at.x) / scale
        look(zoom, window, context, middle - window.span / 2, window.span)
    if window.span < context:
        low = ImVec2(at.x + window.first * scale, at.y - 1)
        high = ImVec2(max(at.x + (window.first + window.span) * scale, low.x + 3), end.y + 1)
        draw.add_rect(low, high, ui.color("text", 0.85), ui.u(0.5), max(1.0, ui.u(0.35)))
    return end.y + ui.u(1.5)


def _draw_rows(
    state: AppState, ui: Ui, rows: Rows, zoom: CacheZoom, window: CacheWindow, frame: MapFrame
) -> list[Action]:
    draw, gap = imgui.get_window_draw_list(), 1.0 if frame.row >= SPACED else 0.0
    for first, count, row in runs([rows.row_of[g[0]] for g in frame.groups], joined=not gap):
        y = frame.at.y + first * frame.row
        end = y + count * frame.row - gap
        low, high = ImVec2(frame.at.x, y), ImVec2(frame.at.x + frame.width, end)
        rows.picture.draw(draw, low, high, row)
    for number, layer in enumerate(frame.layers):
        if layer.rows < (state.model.context if state.model else 0):
            _draw_ring(state, ui, window, frame, number, layer)
    if not state.cache.slots:
        _draw_reused(state, ui, window, frame)
    imgui.set_cursor_screen_pos(frame.at)
    clicked = imgui.invisible_button("kv.map", ImVec2(frame.width, max(frame.height, 1.0)))
    ui.mark("kv_cache.map")
    return _pointer(state, ui, zoom, window, frame, clicked)


def runs(row_of: list[int], joined: bool) -> list[tuple[int, int, int]]:
    """First layer, layers and row of the picture; with `joined` those that follow each other and
    look alike are one."""
    found: list[tuple[int, int, int]] = []
    for number, row in enumerate(row_of):
        if joined and found and found[-1][2] == row:
            found[-1] = (found[-1][0], found[-1][1] + 1, row)
        else:
            found.append((number, 1, row))
    return found


def _draw_reused(state: AppState, ui: Ui, window: CacheWindow, frame: MapFrame) -> None:
    """A line above what the last answer found computed."""
    reused = reused_positions(state.cache)
    end = min(window.x(reused), frame.width)
    if window.first >= reused or end <= 0:
        return
    thick = max(1.0, ui.u(0.5))
    low = ImVec2(frame.at.x, frame.at.y - thick)
    high = ImVec2(frame.at.x + end, frame.at.y)
    imgui.get_window_draw_list().add_rect_filled(low, high, ui.color("warning"))


def _draw_ring(
    state: AppState,
    ui: Ui,
    window: CacheWindow,
    frame: MapFrame,
    number: int,
    layer: CacheLayerInfo,
) -> None:
    """Where the next token will be written."""
    length = state.context_used
    column = length % layer.rows if state.cache.slots else length
    x = window.x(column)
    if not 0 <= x <= frame.width:
        return
    y, thick = frame.at.y + number * frame.row, max(2.0, ui.u(0.5))
    low = ImVec2(frame.at.x + x - thick / 2, y)
    draw = imgui.get_window_draw_list()
    draw.add_rect_filled(low, ImVec2(low.x + thick, y + frame.row - 1), ui.color("text"))


def _pointer(
    state: AppState, ui: Ui, zoom: CacheZoom, window: CacheWindow, frame: MapFrame, clicked: bool
) -> list[Action]:
    """Wheel, drag, click and hover over the rows."""
    assert state.model is not None
    hovered, active = imgui.is_item_hovered(), imgui.is_item_active()
    if imgui.is_item_activated():
        ui.memory["kv.dragged"] = False
    mouse, context = imgui.get_mouse_pos(), state.model.context
    if hovered:
        wheel(zoom, window, context, mouse.x - frame.at.x)
    if imgui.is_item_hovered() and imgui.is_mouse_double_clicked(0):
        zoom.sight = "used"
    elif active and imgui.is_mouse_dragging(0, ui.u(1)):
        moved, ui.memory["kv.dragged"] = imgui.get_io().mouse_delta.x, True
        if moved:
            pan(zoom, window, context, moved)
        return _point(state, None)
    column = window.at(mouse.x - frame.at.x)
    number = int((mouse.y - frame.at.y) // frame.row)
    if not hovered or not 0 <= number < len(frame.layers) or not 0 <= column < context:
        return _point(state, None)
    layer = frame.layers[number]
    position = int(positions_of(layer, state.context_used, column + 1, state.cache.slots)[column])
    _draw_cross(ui, window, frame, column, number)
    at = ImVec2(mouse.x, frame.at.y + frame.height + ui.u(1))  # below: the map stays in sight
    pivot = min(max((mouse.x - frame.at.x) / frame.width, 0.0), 1.0)
    imgui.set_next_window_pos(at, 0, ImVec2(pivot, 0.0))
    draw_tip(state, ui, frame.groups[number], column, position)
    actions = _point(state, position if position >= 0 else None)
    if clicked and position >= 0 and not ui.memory.get("kv.dragged"):
        same = position == state.attention.row
        ui.memory["chat.show"] = None if same else state.owners[position]
        actions.append(SetAttention(replace(state.attention, row=None if same else position)))
    return actions


def _point(state: AppState, position: int | None) -> list[Action]:
    return [] if position == state.cache.pointed else [PointAt(position)]


def _draw_cross(ui: Ui, window: CacheWindow, frame: MapFrame, column: int, number: int) -> None:
    draw, thick = imgui.get_window_draw_list(), max(1.0, ui.u(0.3))
    x0, x1 = (frame.at.x + min(max(window.x(c), 0), frame.width) for c in (column, column + 1))
    low = ImVec2(x0, frame.at.y)
    high = ImVec2(max(x1, x0 + thick), frame.at.y + frame.height)
    draw.add_rect_filled(low, high, ui.color("text", 0.16))
    y = frame.at.y + number * frame.row
    end = ImVec2(high.x, y + max(frame.row - 1, 2.0))
    draw.add_rect(
        ImVec2(low.x - thick, y - thick),
        ImVec2(end.x + thick, end.y + thick),
        ui.color("text"),
        0.0,
        thick,
    )


def _draw_axis(state: AppState, ui: Ui, window: CacheWindow, frame: MapFrame, top: float) -> None:
    """Tokens where columns are wide enough, else round positions; the token that is held."""
    draw, size = imgui.get_window_draw_list(), ui.theme.size("small")
    worded = window.each >= ui.u(TOKENS) and not state.cache.slots
    y = round(top + ui.u(0.25))
    with ui.font(style="small"):
        left = frame.at.x - ui.u(1.5) - imgui.calc_text_size(tr(LAYER_AXIS)).x
        draw.add_text(ImVec2(round(left), y), ui.color("faint"), tr(LAYER_AXIS))
        if worded:
            _draw_words(state, ui, window, frame, y)
        else:
            name = tr(PLACE_AXIS if state.cache.slots else TOKEN_AXIS)
            end = frame.at.x + frame.width - imgui.calc_text_size(name).x
            draw.add_text(ImVec2(round(end), y), ui.color("faint"), name)
            for column in _ticks(window, ui.u(18)):
                x, words = frame.at.x + window.x(column), f"{column:,}"
                room = imgui.calc_text_size(words).x
                if x + room <= end - ui.u(1.5):
                    draw.add_text(ImVec2(round(x), y), ui.color("muted"), words)
    row = state.attention.row
    if row is not None and not state.cache.slots and 0 <= window.x(row) <= frame.width:
        x = frame.at.x + window.x(row + 0.5)
        spot = ImVec2(x, top + size + ui.u(1.5))
        half = ui.u(0.9)
        draw.add_triangle_filled(
            ImVec2(x - half, spot.y - half),
            ImVec2(x + half, spot.y - half),
            spot,
            ui.color("accent"),
        )


def _draw_words(state: AppState, ui: Ui, window: CacheWindow, frame: MapFrame, y: float) -> None:
    draw, first = imgui.get_window_draw_list(), max(0, math.floor(window.first))
    assert state.model is not None
    for position in range(first, min(math.ceil(window.first + window.span), state.model.context)):
        x = window.x(position)
        if x < -window.each / 2:
            continue
        room = min(window.each, frame.width - x)  # the last may be cut
        known = position < min(state.context_used, len(state.positions))
        words = visible(state.positions[position]) if known else f"{position:,}"  # a free place
        words = fit(words, room - ui.u(0.5))
        color = "text" if position == state.cache.pointed else "muted"
        draw.add_text(ImVec2(round(frame.at.x + max(x, 0.0)), y), ui.color(color), words)


def _ticks(window: CacheWindow, least: float) -> list[int]:
    """Round positions at least `least` pixels apart."""
    wanted = max(least / window.each, 1.0)
    power = 10.0 ** math.floor(math.log10(wanted))
    step = int(next(power * i for i in (1, 2, 5, 10) if power * i >= wanted))
    first = -(-math.ceil(window.first) // step) * step
    return list(range(max(first, 0), math.floor(window.first + window.span) + 1, step))


def _draw_labels(state: AppState, ui: Ui, frame: MapFrame) -> None:
    """Numbers of the layers, as many as find room."""
    assert state.model is not None
    layers = state.model.cache.layers
    draw, size = imgui.get_window_draw_list(), ui.theme.size("small")
    every = max(1, math.ceil((size + ui.u(0.5)) / frame.row))
    with ui.font(style="small"):
        for number in range(0, len(frame.layers), every):
            words = group_label(layers, frame.groups[number])
            x = frame.at.x - ui.u(1.5) - imgui.calc_text_size(words).x
            y = frame.at.y + number * frame.row + (frame.row - size) / 2
            draw.add_text(ImVec2(round(x), round(y)), ui.color("muted"), words)
