"""A list and the details of what is chosen in it: side by side; where it is narrow one below the
other, and where it is low too the details alone, until they are closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.ui import Ui

BESIDE = 170.0  # spacing units of room from which details stand beside the list
SHARE = 0.38  # of the width, for details
LEAST, MOST = 74.0, 120.0  # spacing units of details
BELOW = 0.52  # of the height, for details
BOTH = 110.0  # spacing units of height from which both are shown, one below the other

Part = AbstractContextManager[bool]


@contextmanager
def split(ui: Ui, name: str, has_details: bool) -> Iterator[tuple[Part, Part]]:
    """Yield two parts to draw in, one after the other; each yields whether it is shown."""
    room = imgui.get_content_region_avail()
    if not has_details:
        yield _part(f"{name}.list", ImVec2(0, room.y)), _absent()
        return
    gap = ui.u(4)
    if room.x >= ui.u(BESIDE):
        wide = min(max(room.x * SHARE, ui.u(LEAST)), ui.u(MOST))
        first = _part(f"{name}.list", ImVec2(room.x - wide - gap, room.y))
        yield first, _beside(ui, f"{name}.details", wide, room.y, gap)
        return
    if room.y < ui.u(BOTH):
        yield _absent(), _part(f"{name}.details", ImVec2(0, 0), scrolls=True)
        return
    first = _part(f"{name}.list", ImVec2(0, room.y * (1 - BELOW) - gap))
    yield first, _below(ui, f"{name}.details")


@contextmanager
def _part(name: str, size: ImVec2, scrolls: bool = False) -> Iterator[bool]:
    flags = 0 if scrolls else imgui.WindowFlags_.no_scrollbar
    imgui.begin_child(name, size, FLAT, flags)
    try:
        yield True
    finally:
        imgui.end_child()


@contextmanager
def _beside(ui: Ui, name: str, width: float, height: float, gap: float) -> Iterator[bool]:
    imgui.same_line(0, gap)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    x = at.x - gap / 2
    draw.add_rect_filled(ImVec2(x, at.y), ImVec2(x + ui.u(0.25), at.y + height), ui.color("border"))
    with _part(name, ImVec2(width, height), scrolls=True) as shown:
        yield shown


@contextmanager
def _below(ui: Ui, name: str) -> Iterator[bool]:
    imgui.separator()
    with _part(name, ImVec2(0, 0), scrolls=True) as shown:
        yield shown


@contextmanager
def _absent() -> Iterator[bool]:
    yield False
