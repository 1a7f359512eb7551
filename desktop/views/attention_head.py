"""The locked heads, large, side by side: tokens on both axes, zoom, and any moment of the text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from imgui_bundle import ImVec2, imgui

from desktop.actions import Action, SetAttention
from desktop.attention_maps import AttentionMaps
from desktop.attention_state import AttentionChoice, Head
from desktop.icons import ICON_CLOSE
from desktop.state import AppState
from desktop.ui import Ui
from desktop.views.attention_look import draw_bar, draw_look, look_of, redraw
from desktop.views.attention_map import draw_axes, draw_map, draw_pointer, gutter
from desktop.widgets import icon_button, slider, text, toggle, wrapped

LEAST = 16  # tokens that zooming ends at
ZOOM = 1.25  # a notch of the wheel
EMPTY = "Click a head in the grid of the Attention view. Up to four are shown side by side."


@dataclass(slots=True)
class _Zoom:
    """What part of the text is shown; `count` 0 shows all of it, as it grows."""

    start: float = 0.0
    count: float = 0.0

    def window(self, length: int) -> range:
        if not self.count or self.count >= length:
            return range(length)
        count = max(round(self.count), min(LEAST, length))
        start = min(max(round(self.start), 0), length - count)
        return range(start, start + count)


def draw(state: AppState, ui: Ui) -> list[Action]:
    maps, choice = ui.maps, state.attention
    if maps is None or maps.problem or not choice.locked:
        text(ui, "Heads", bold=True)
        wrapped(ui, EMPTY if maps is None or not maps.problem else maps.problem)
        return []
    maps.use(look_of(choice))
    choice = _draw_heads(choice, ui, maps, state.positions)
    choice = _draw_time(choice, ui, maps, state.positions)
    redraw(state, ui, maps)
    return [SetAttention(choice)] if choice != state.attention else []


def _draw_heads(
    choice: AttentionChoice, ui: Ui, maps: AttentionMaps, labels: tuple[str, ...]
) -> AttentionChoice:
    zoom = ui.memory.setdefault("head.zoom", _Zoom())
    window = zoom.window(maps.length)
    choice = draw_look(_draw_window(choice, ui, zoom, window, maps.length), ui, "head")
    room = imgui.get_content_region_avail()
    foot = ui.u(14) + ui.theme.size("small") + ui.u(8)
    columns = len(choice.locked)
    gap, title = ui.u(4), ui.u(8)
    width = (room.x - gap * (columns - 1)) / columns
    height = max(room.y - foot - title, ui.u(20))
    side = min(width, height)
    for _ in range(2):  # the labels' room depends on the size, a little
        edge = gutter(ui, labels, window, side)
        side = max(min(width - edge, height - edge), ui.u(16))
    for number, head in enumerate(choice.locked):
        if number:
            imgui.same_line(0, gap)
        imgui.begin_group()
        choice = _draw_head(choice, ui, maps, labels, head, window, (side, edge, title), zoom)
        imgui.end_group()
    draw_bar(choice, ui, min(side * columns, room.x))
    return choice


def _draw_window(
    choice: AttentionChoice, ui: Ui, zoom: _Zoom, window: range, length: int
) -> AttentionChoice:
    """What is shown, in words."""
    if len(window) == length:
        words = f"All {length:,} tokens"
    else:
        words = f"Tokens {window.start:,} to {window.stop - 1:,} of {length:,}"
    imgui.align_text_to_frame_padding()
    text(ui, words, "muted", "small")
    if len(window) < length:
        imgui.same_line(0, ui.u(2))
        if imgui.small_button("Show all"):
            zoom.count = 0.0
        ui.mark("head.all")
    return choice


def _draw_head(
    choice: AttentionChoice,
    ui: Ui,
    maps: AttentionMaps,
    labels: tuple[str, ...],
    head: Head,
    window: range,
    sizes: tuple[float, float, float],
    zoom: _Zoom,
) -> AttentionChoice:
    side, edge, title = sizes
    name = f"head.{head[0]}.{head[1]}"
    top = imgui.get_cursor_screen_pos()
    imgui.set_cursor_screen_pos(ImVec2(top.x + edge, top.y))
    text(ui, f"Layer {head[0]}, head {head[1]}", bold=True)
    imgui.same_line(0, ui.u(1))
    if icon_button(ui, f"{name}.close", ICON_CLOSE, "Unlock", side=ui.u(5), style="small"):
        choice = choice.toggled(head)
    at = ImVec2(top.x + edge, top.y + title + edge)
    draw_axes(ui, labels, window, at, side)
    imgui.set_cursor_screen_pos(at)
    draw_map(ui, maps, name, head, window, side, marked=choice.row)
    imgui.set_cursor_screen_pos(at)
    imgui.invisible_button(name, ImVec2(side, side))
    ui.mark(name)
    pair = draw_pointer(ui, maps, name, labels, window, at, side)
    _use_pointer(zoom, window, maps.length, at, side)
    if pair and imgui.is_mouse_double_clicked(0):
        choice = replace(choice, row=pair[0])
    return choice


def _use_pointer(zoom: _Zoom, window: range, length: int, at: ImVec2, side: float) -> None:
    """The wheel zooms about the pointer; dragging pans."""
    io: Any = imgui.get_io()
    if imgui.is_item_active() and len(window) < length:
        moved = -(io.mouse_delta.x + io.mouse_delta.y) / side * len(window)
        zoom.start, zoom.count = _clamped(zoom.start + moved, len(window), length)
    if imgui.is_item_hovered() and io.mouse_wheel:
        count = min(max(len(window) * ZOOM**-io.mouse_wheel, LEAST), length)
        share = min(max((io.mouse_pos.x - at.x) / side, 0.0), 1.0)
        start = window.start + share * (len(window) - count)
        zoom.start, zoom.count = _clamped(start, count, length)
    imgui.set_item_key_owner(imgui.Key.mouse_wheel_y)


def _clamped(start: float, count: float, length: int) -> tuple[float, float]:
    return min(max(start, 0.0), max(length - count, 0.0)), 0.0 if count >= length else count


def _draw_time(
    choice: AttentionChoice, ui: Ui, maps: AttentionMaps, labels: tuple[str, ...]
) -> AttentionChoice:
    """Follow the newest token, or go back to any."""
    live = toggle(ui, "head.live", "Follow live", choice.row is None, "Mark no row, show the newest")
    last = maps.length - 1
    row = min(last if choice.row is None else choice.row, last)
    imgui.same_line(0, ui.u(5))
    imgui.begin_group()
    word = labels[row].strip() if row < len(labels) else ""
    moved = slider(ui, "head.row", "At token", row, (0, max(last, 1)), whole=True,
                   shown=f"{row:,}  {word}")  # fmt: skip
    imgui.end_group()
    if int(moved) != row:
        return replace(choice, row=int(moved))
    if live != (choice.row is None):
        return replace(choice, row=None if live else row)
    return choice
