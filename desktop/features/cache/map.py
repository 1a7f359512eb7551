"""The map of the cache: a row for every layer that owns one, a column for every position. Wheel and
drag change which part of it is in sight; a tooltip describes what is under the pointer."""

from __future__ import annotations

import math
from typing import Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.cache.model import PointAt, measured
from llm_lite.desktop.features.cache.picture import (
    OVERVIEW,
    CachePicture,
    CacheWindow,
    cache_picture,
    positions_of,
)
from llm_lite.desktop.features.cache.state import layer_bytes
from llm_lite.desktop.features.chat.places import bring_into_sight
from llm_lite.desktop.features.chat.reading import token_id
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.cached_text import age, reused_positions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import SYSTEM, TARGET, TEMPLATE
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import size, tokens
from llm_lite.desktop.widgets.icons import ICON_ZOOM_IN, ICON_ZOOM_OUT
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, text, tip

Sight = Literal["context", "used", "own"]
FEWEST = 8.0  # columns
STEP = 1.25  # of a zoom, for a line of the wheel
LEAST_USED = 64
SIGHTS: tuple[tuple[Sight, str, str], ...] = (
    ("context", mark("All"), mark("The whole context")),
    ("used", mark("Used"), mark("What is used, as it grows")),
)
BUTTONS = (
    ("out", ICON_ZOOM_OUT, 2.0, mark("Zoom out (wheel down)")),
    ("in", ICON_ZOOM_IN, 0.5, mark("Zoom in to single tokens (wheel up); drag to pan")),
)
AROUND = 4  # tokens before and behind
NAMES = {
    "key-norm": mark("key norm"),
    "value-norm": mark("value norm"),
    "received": mark("attention received"),
}
LOWEST_ROW, HIGHEST_ROW = 1.25, 5.0  # spacing units
STRIP = 14.0  # spacing units of a row that stands for several layers, at most
LAYER_AXIS, TOKEN_AXIS, PLACE_AXIS = mark("layer"), mark("token"), mark("place")
SPACED = 7.0  # pixels of a row from which there is a line between rows
TOKENS = 7.0  # spacing units a column needs to carry its token


class CacheZoom(Struct):
    """The part that is in sight. `own` holds first and span of what a person chose; it lasts as
    long as the chat."""

    sight: Sight = "used"
    own: tuple[float, float] = (0.0, 1.0)
    chat: int = 0
    dragged: bool = False  # since the button went down on the map


class MapFrame(Struct, frozen=True):
    """The place of the map on the screen: its rows from `at`, each `row` pixels tall, for the first
    layer of each of `groups`."""

    at: ImVec2
    width: float
    row: float
    layers: tuple[CacheLayerInfo, ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def height(self) -> float:
        return self.row * len(self.layers)


def draw_cache_map(state: AppState, ui: Ui, zoom: CacheZoom, height: float) -> list[Action]:
    """Draw overview, axis and rows, about `height` pixels tall, as wide as there is room."""
    assert state.model is not None
    every, groups = state.model.cache.layers, strips(state)
    layers = tuple(every[group[0]] for group in groups)
    gutter = _gutter(ui, [group_label(every, group) for group in groups])
    room, corner = imgui.get_content_region_avail().x, imgui.get_cursor_screen_pos()
    width = float(max(round(room - gutter - ui.u(1)), 32))
    window = window_of(state, zoom, int(width))
    rows = cache_picture(state, ui, window)
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
    """Group the numbers of layers that share a row of the map: those that keep the same positions,
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
    """Name the layers of a group by their numbers, or by how many of all they are where the numbers
    have gaps."""
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
    """Return the layer's number, and how many more layers read it."""
    return f"{layer.layer} +{len(layer.shared_with)}" if layer.shared_with else str(layer.layer)


def _draw_overview(
    state: AppState, ui: Ui, rows: CachePicture, zoom: CacheZoom, window: CacheWindow, at: ImVec2
) -> float:
    """Draw the whole context in a line, with what is in sight outlined; return its lower end."""
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
        show_part(zoom, window, context, middle - window.span / 2, window.span)
    if window.span < context:
        low = ImVec2(at.x + window.first * scale, at.y - 1)
        high = ImVec2(max(at.x + (window.first + window.span) * scale, low.x + 3), end.y + 1)
        draw.add_rect(low, high, ui.color("text", 0.85), ui.u(0.5), max(1.0, ui.u(0.35)))
    return end.y + ui.u(1.5)


def _draw_rows(
    state: AppState,
    ui: Ui,
    rows: CachePicture,
    zoom: CacheZoom,
    window: CacheWindow,
    frame: MapFrame,
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
    """Return first layer, layers and row of the picture; with `joined` those that follow each other
    and look alike are one."""
    found: list[tuple[int, int, int]] = []
    for number, row in enumerate(row_of):
        if joined and found and found[-1][2] == row:
            found[-1] = (found[-1][0], found[-1][1] + 1, row)
        else:
            found.append((number, 1, row))
    return found


def _draw_reused(state: AppState, ui: Ui, window: CacheWindow, frame: MapFrame) -> None:
    """Draw a line above what the last answer found computed."""
    reused = reused_positions(state.in_front)
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
    """Mark where the next token will be written."""
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
    """Handle wheel, drag, click and hover over the rows."""
    assert state.model is not None
    hovered, active = imgui.is_item_hovered(), imgui.is_item_active()
    if imgui.is_item_activated():
        zoom.dragged = False
    mouse, context = imgui.get_mouse_pos(), state.model.context
    if hovered:
        wheel(zoom, window, context, mouse.x - frame.at.x)
    if imgui.is_item_hovered() and imgui.is_mouse_double_clicked(0):
        zoom.sight = "used"
    elif active and imgui.is_mouse_dragging(0, ui.u(1)):
        moved, zoom.dragged = imgui.get_io().mouse_delta.x, True
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
    if clicked and position >= 0 and not zoom.dragged:
        same = position == state.attention.row
        bring_into_sight(ui, None if same else state.owners[position])
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
    """Draw tokens where columns are wide enough, else round positions; mark the token that is
    held."""
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
    """Return round positions at least `least` pixels apart."""
    wanted = max(least / window.each, 1.0)
    power = 10.0 ** math.floor(math.log10(wanted))
    step = int(next(power * i for i in (1, 2, 5, 10) if power * i >= wanted))
    first = -(-math.ceil(window.first) // step) * step
    return list(range(max(first, 0), math.floor(window.first + window.span) + 1, step))


def _draw_labels(state: AppState, ui: Ui, frame: MapFrame) -> None:
    """Draw the numbers of the layers, as many as find room."""
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


def draw_tip(state: AppState, ui: Ui, numbers: tuple[int, ...], column: int, position: int) -> None:
    """`numbers` of the layers in the layout; `position` is negative where nothing is held."""
    assert state.model is not None
    number = numbers[0]
    layer = state.model.cache.layers[number]
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    if 0 <= position < min(len(state.positions), len(state.owners)):
        _draw_token(state, ui, position)
        _small(ui, "  ·  ".join(_facts(state, number, position)))
    else:
        text(ui, _empty(state, layer, position), bold=True)
        words = tr("place {n:,}") if state.cache.slots else tr("position {n:,}")
        _small(ui, words.format(n=column))
    _small(ui, layer_words(tuple(state.model.cache.layers[n] for n in numbers)))
    imgui.end_tooltip()


def _small(ui: Ui, words: str) -> None:
    text(ui, words, "muted", "small")


def _draw_token(state: AppState, ui: Ui, position: int) -> None:
    """Draw the token between its neighbours."""
    labels = state.positions
    before = labels[max(0, position - AROUND) : position]
    after = labels[position + 1 : position + 1 + AROUND]
    text(ui, f"“{visible(labels[position])}”", bold=True)
    imgui.same_line(0, ui.u(3))
    _small(ui, "".join(map(_plain, before)))
    imgui.same_line(0, 0)
    text(ui, _plain(labels[position]), "accent", "small")
    imgui.same_line(0, 0)
    _small(ui, "".join(map(_plain, after)))


def _plain(words: str) -> str:
    return words.replace("\n", "⏎").replace("\t", "→")


def _facts(state: AppState, number: int, position: int) -> list[str]:
    token = token_id(state, position)
    known = [] if token is None else [tr("token {n:,}").format(n=token)]
    known += [tr("position {n:,}").format(n=position), whose(state, position)]
    if position < reused_positions(state.in_front):
        known.append(tr("reused"))
    value = value_at(state, number, position)
    if value is not None:
        known.append(value)
    return known


def whose(state: AppState, position: int) -> str:
    owner = state.owners[position]
    if owner == TEMPLATE:
        return tr("the chat template's own")
    if owner == TARGET:
        return tr("the target's") if position else tr("the token that the decoder starts with")
    if owner == SYSTEM or not 0 <= owner < len(state.messages):
        return tr("system prompt")
    yours = state.messages[owner].role != "assistant"
    return (tr("you, message {n}") if yours else tr("answer, message {n}")).format(n=owner + 1)


def value_at(state: AppState, number: int, position: int) -> str | None:
    """Return in words the value that the colour at a position stands for; None where it is not
    known."""
    cache = state.cache
    if cache.by == "age":
        since = age(state.in_front, position)
        return tr("{since} ago").format(since=tokens(since)) if since else tr("the newest")
    known = measured(state)
    if known is None or position >= known.values.shape[1]:
        return None
    value = float(known.values[number, position])
    if math.isnan(value):
        return None
    shown = f"{value:.3g}" if known.what != "received" else f"{value:.2%}"
    return f"{tr(NAMES[known.what])} {shown}"


def layer_words(layers: tuple[CacheLayerInfo, ...]) -> str:
    """Describe the layer under the pointer, or those that a row of the map stands for."""
    layer = layers[0]
    if len(layers) > 1:
        owners = ranges(tuple(one.layer for one in layers))
        words = [tr("Layers {numbers}").format(numbers=owners)]
    else:
        words = [tr("Layer {i}").format(i=layer.layer)]
    words.append(tr("{size} a token").format(size=size(sum(map(layer_bytes, layers)))))
    if layer.shared_with and len(layers) == 1:
        shared = layer.shared_with
        also = trn("also read by layer {numbers}", "also read by layers {numbers}", len(shared))
        words.append(also.format(numbers=ranges(shared)))
    if layer.window:
        words.append(tr("looks back {n:,}").format(n=layer.window))
    return "  ·  ".join(words)


def ranges(numbers: tuple[int, ...]) -> str:
    """Return numbers as ranges: "20–22, 25"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def _empty(state: AppState, layer: CacheLayerInfo, position: int) -> str:
    """Explain a place where no token of the conversation is known."""
    if position >= 0:
        return tr("From an earlier answer: its text is known once the conversation goes on")
    if position == -1:
        return tr("Free")
    if state.cache.slots:
        return tr("This layer has no such place")
    return tr("Overwritten: this layer keeps the last {n:,}").format(n=layer.rows)


def zoom_of(state: AppState, ui: Ui) -> CacheZoom:
    zoom = ui.local(CacheZoom)
    if zoom.chat != state.chat:
        zoom.sight = "used" if zoom.sight == "own" else zoom.sight
        zoom.chat = state.chat
    return zoom


def window_of(state: AppState, zoom: CacheZoom, pixels: int) -> CacheWindow:
    assert state.model is not None
    context = float(state.model.context)
    if zoom.sight == "own":
        first, span = zoom.own
        span = min(span, context)  # which may be smaller than when this was chosen
        return CacheWindow(min(first, context - span), span, pixels)
    span = context if zoom.sight == "context" else _used(state.context_used, context)
    return CacheWindow(0.0, span, pixels)


def _used(used: int, context: float) -> float:
    """Return a little more than what is used, in steps, so that it stays for many tokens."""
    step = max(LEAST_USED, 1 << max(used, 1).bit_length()) // 8
    return min(context, float(max(LEAST_USED, (used // step + 1) * step)))


def show_part(
    zoom: CacheZoom, window: CacheWindow, context: int, first: float, span: float
) -> None:
    """Show first..first+span, within the context."""
    span = min(max(span, FEWEST), float(context))
    first = min(max(first, 0.0), context - span)
    zoom.sight, zoom.own = "own", (first, span)


def wheel(zoom: CacheZoom, window: CacheWindow, context: int, x: float) -> None:
    """Change the zoom around pixel x by the wheel, or pan where it is turned sideways, while the
    last item is hovered."""
    imgui.set_item_key_owner(imgui.Key.mouse_wheel_y)
    io = imgui.get_io()
    lines, across = io.mouse_wheel, io.mouse_wheel_h
    if lines:
        span = min(max(window.span / STEP**lines, FEWEST), float(context))
        at = window.first + x / window.each
        show_part(zoom, window, context, at - x / window.pixels * span, span)
    elif across:
        show_part(zoom, window, context, window.first - across * window.span / 16, window.span)


def pan(zoom: CacheZoom, window: CacheWindow, context: int, pixels: float) -> None:
    show_part(zoom, window, context, window.first - pixels / window.each, window.span)


def zoom_width(ui: Ui) -> float:
    with ui.font(style="small"):
        words = sum(imgui.calc_text_size(tr(label)).x + ui.u(4) for _, label, _ in SIGHTS)
    return words + ui.u(7) * 2 + ui.u(3)


def draw_zoom(state: AppState, ui: Ui, zoom: CacheZoom, window: CacheWindow) -> None:
    """Draw the buttons of the zoom, side by side."""
    assert state.model is not None
    side, context = ui.u(7), state.model.context
    for sight, label, hint in SIGHTS:
        on = zoom.sight == sight
        colors = {"button": "accent_soft" if on else "-", "text": "accent" if on else "muted"}
        with ui.font(style="small"), ui.colored(**colors):
            width = imgui.calc_text_size(tr(label)).x + ui.u(4)
            if imgui.button(f"{tr(label)}##kv.{sight}", imgui.ImVec2(width, side)):
                zoom.sight = sight
        ui.mark(f"kv_cache.{sight}")
        tip(ui, tr(hint))
        imgui.same_line(0, ui.u(1))
    middle = window.first + window.span / 2
    for name, icon, factor, hint in BUTTONS:
        if icon_button(ui, f"kv_cache.{name}", icon, tr(hint), side=side):
            span = window.span * factor
            show_part(zoom, window, context, middle - span / 2, span)
        if name == "out":
            imgui.same_line(0, ui.u(1))
