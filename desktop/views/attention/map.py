"""One map: its texture, its axes with tokens, the row that is marked, and what the pointer says."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.attention_state import Head
from llm_lite.desktop.state.maps import HeadMaps, MapPicture
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text

VERTEX_BYTES = 20  # of which the first 8 are x and y, float32
FAR = 1e6
MERE = 2.0  # pixels of a row that are too few to be hatched


def texture_of(picture: MapPicture) -> imgui.ImTextureRef:
    texture = picture.texture
    return imgui.ImTextureRef(texture) if isinstance(texture, int) else texture


def draw_map(
    ui: Ui,
    maps: HeadMaps,
    name: str,
    head: Head,
    window: range,
    side: float,
    *,
    marked: int | None = None,
) -> MapPicture:
    """A square of `side` pixels with the positions of `window` on both axes, without labels; rows
    that are not computed are hatched."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    picture = maps.picture(name, *head, window, window, side)
    high = ImVec2(at.x + side, at.y + side)
    draw.add_rect_filled(at, high, ui.color("sunken"))
    draw_missing(ui, draw, at, side, window, picture.missing)
    texture = texture_of(picture)
    draw.add_image(texture, at, high, ImVec2(*picture.low), ImVec2(*picture.high))
    if marked is not None and marked < window.stop:
        mark_row(ui, at, side, window, max(marked, window.start - 1), draw)
    imgui.dummy(ImVec2(side, side))
    return picture


@lru_cache(64)  # thumbnails are alike
def hatching(
    side: float, window: range, missing: tuple[tuple[int, int], ...], gap: float
) -> tuple[tuple[float, float, float, float], ...]:
    """Lines (x, y, x, y) that rise to the right, `gap` apart, over rows that are not computed, as
    far as tokens can look back."""
    lines = []
    each = side / len(window)
    for first, last in missing:
        upper = (max(first, window.start) - window.start) * each
        lower = (min(last, window.stop) - window.start) * each
        if lower - upper < MERE:
            continue
        for number in range(math.ceil(upper / gap), int(2 * lower / gap) + 1):
            total = number * gap  # of x and y on a line
            high, low = max(upper, total / 2), min(lower, total)
            if low - high > MERE:
                lines.append((total - low, low, total - high, high))
    return tuple(lines)


def draw_missing(
    ui: Ui, draw: imgui.ImDrawList, at: ImVec2, side: float, window: range,
    missing: Sequence[tuple[int, int]],
) -> None:  # fmt: skip
    """Hatched, so that what is not known is not taken for nothing."""
    color, thick, gap = ui.color("faint", 0.7), max(1.0, ui.u(0.25)), ui.u(1.75)
    x, y, line = at.x, at.y, draw.add_line
    for left, low, right, high in hatching(side, window, tuple(missing), gap):
        line((x + left, y + low), (x + right, y + high), color, thick)


def mark_row(
    ui: Ui, at: ImVec2, side: float, window: range, row: int, draw: imgui.ImDrawList
) -> None:
    """What comes after the row had not been written yet: it is dimmed."""
    each = side / len(window)
    top = at.y + (row - window.start) * each
    bottom = top + max(each, 1.0)
    rest = ImVec2(at.x + side, at.y + side)
    draw.add_rect_filled(ImVec2(at.x, bottom), rest, ui.color("panel", 0.8))
    if row < window.start:
        return
    thick = max(1.0, ui.u(0.375))
    low = ImVec2(at.x, top - thick / 2)
    draw.add_rect(low, ImVec2(rest.x, bottom + thick / 2), ui.color("accent"), 0.0, thick)


def gutter(ui: Ui, labels: Sequence[str], window: range, worded: bool) -> float:
    """Room for the labels of an axis: tokens, or positions."""
    with ui.font(style="small"):
        if not worded:
            return imgui.calc_text_size(f"{window.stop:,}").x + ui.u(2)
        shown = (_label(labels, position) for position in window)
        widest = max(imgui.calc_text_size(words).x for words in shown)
    return min(widest, ui.u(24)) + ui.u(1.5)


def draw_axes(
    ui: Ui,
    labels: Sequence[str] | None,
    window: range,
    at: ImVec2,
    side: float,
    room: float,
    marked: int | None,
    draw: imgui.ImDrawList,
) -> None:
    """Tokens at the left and, upright, above the map at `at`; without `labels` some positions."""
    size = ui.theme.size("small")
    each = side / len(window)
    positions = window if labels is not None else _ticks(window, side, ui.u(16))
    color = ui.color("muted")
    with ui.font(style="small"):
        for position in positions:
            words = f"{position:,}" if labels is None else _label(labels, position)
            words = fit(words, room - ui.u(1))
            middle = (position - window.start + 0.5) * each
            width = imgui.calc_text_size(words).x
            spot = ImVec2(at.x - ui.u(1) - width, round(at.y + middle - size / 2))
            lit = ui.color("accent") if position == marked else color
            draw.add_text(spot, lit, words)
            if labels is not None:
                _upright(draw, words, color, at.x + middle - size / 2, at.y - ui.u(1))
            else:
                x = min(at.x + middle - width / 2, at.x + side - width)
                draw.add_text(ImVec2(round(max(x, at.x)), at.y - size - ui.u(0.5)), color, words)


def _label(labels: Sequence[str], position: int) -> str:
    words = labels[position] if position < len(labels) else f"#{position}"
    return visible(words)


def _ticks(window: range, side: float, least: float) -> list[int]:
    """Round positions at least `least` pixels apart."""
    wanted = len(window) * least / side
    power = 10.0 ** math.floor(math.log10(max(wanted, 1.0)))
    step = int(next(power * i for i in (1, 2, 5, 10) if power * i >= max(wanted, 1.0)))
    first = -(-window.start // step) * step
    return list(range(first, window.stop, step))


def _upright(draw: imgui.ImDrawList, words: str, color: int, x: float, y: float) -> None:
    """Text that reads upwards from (x, y): drawn level, then turned by its vertices."""
    first = draw.vtx_buffer.size()
    draw.push_clip_rect(ImVec2(-FAR, -FAR), ImVec2(FAR, FAR))  # or it is cut where it is drawn
    draw.add_text(ImVec2(0, 0), color, words)
    draw.pop_clip_rect()
    count = draw.vtx_buffer.size() - first
    if count <= 0:
        return
    address = draw.vtx_buffer.data_address() + first * VERTEX_BYTES
    memory = (ctypes.c_char * (count * VERTEX_BYTES)).from_address(address)
    vertices = np.frombuffer(memoryview(memory), np.float32).reshape(count, VERTEX_BYTES // 4)
    across, along = vertices[:, 0].copy(), vertices[:, 1].copy()
    vertices[:, 0], vertices[:, 1] = round(x) + along, round(y) - across


def draw_pointer(
    ui: Ui,
    maps: HeadMaps,
    name: str,
    labels: Sequence[str],
    window: range,
    at: ImVec2,
    side: float,
    missing: Iterable[tuple[int, int]] = (),
    *,
    causal: bool = True,
) -> tuple[int, int] | None:
    """Lines through the pair under the pointer and a tooltip with its value; (row, column).
    `causal`: tokens see none behind them."""
    each, mouse = side / len(window), imgui.get_mouse_pos()
    row = window.start + int((mouse.y - at.y) / each)
    column = window.start + int((mouse.x - at.x) / each)
    if row not in window or column not in window or not imgui.is_item_hovered():
        return None
    draw_cross(ui, window, at, side, (row, column))
    lost = any(first <= row < last for first, last in missing)
    can_look = not causal or column <= row
    value = None if lost else maps.value(name, row, column)
    with ui.styled(window_padding=(ui.u(3), ui.u(2))):
        if imgui.begin_tooltip():
            asked, seen = (_label(labels, p) for p in (row, column))
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
        return tr("Not computed: the query of this token is no longer kept.")
    if value is None:
        return "…"
    return f"{value:.1%}" if value >= 0.001 else f"{value * 100:.2g}%"


def draw_cross(ui: Ui, window: range, at: ImVec2, side: float, pair: tuple[int, int]) -> None:
    draw, each = imgui.get_window_draw_list(), side / len(window)
    color, thick = ui.color("text", 0.55), max(1.0, ui.u(0.25))
    x = at.x + (pair[1] - window.start) * each
    y = at.y + (pair[0] - window.start) * each
    for end in (0.0, each):
        draw.add_line(ImVec2(x + end, at.y), ImVec2(x + end, at.y + side), color, thick)
        draw.add_line(ImVec2(at.x, y + end), ImVec2(at.x + side, y + end), color, thick)
