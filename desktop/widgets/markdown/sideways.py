"""Tables that are wider than their column: scrolled sideways, by the wheel or by the bar below."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.markdown.layout import LaidText
from llm_lite.desktop.widgets.markdown.table import Grid
from llm_lite.desktop.widgets.ui import Ui

SCROLLED = "table.scrolled"  # in the memory of the interface: by identity, a table and its offset
KEPT = 64  # tables whose offset is known
NOTCH = 6.0  # text sizes that a notch of the wheel moves


def offset(ui: Ui, grid: Grid | None) -> float:
    """Pixels of a table that are out of sight at the left."""
    if grid is None or grid.over <= 0:
        return 0.0
    known: OrderedDict[int, tuple[Grid, float]] = ui.memory.get(SCROLLED, OrderedDict())
    held = known.get(id(grid))
    return min(held[1], grid.over) if held is not None and held[0] is grid else 0.0


def scroll_to(ui: Ui, grid: Grid, wanted: float) -> None:
    known: OrderedDict[int, Any] = ui.memory.setdefault(SCROLLED, OrderedDict())
    known[id(grid)] = (grid, float(round(min(max(wanted, 0.0), grid.over))))
    known.move_to_end(id(grid))
    if len(known) > KEPT:
        known.popitem(last=False)


def draw_scroll(ui: Ui, draw: Any, laid: LaidText, x: float, y: float, name: str) -> None:
    """The bar in the last pixels of the block, whose left upper corner is given; and what a person
    does with it, or with the wheel over the table."""
    grid = laid.grid
    if grid is None or grid.over <= 0:
        return
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
