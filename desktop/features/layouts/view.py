"""The window's layouts side by side, and the button that shows and hides the inspector."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.layouts.state import LayoutName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import (
    ICON_COMPARE,
    ICON_INSPECT,
    ICON_PANEL_RIGHT,
    ICON_READ,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, tip

LAYOUTS: tuple[tuple[LayoutName, str, str, str], ...] = (
    ("read", ICON_READ, mark("Read"), mark("Read: the conversations and the chat")),
    ("inspect", ICON_INSPECT, mark("Inspect"), mark("Inspect: the chat beside the inspector")),
    ("compare", ICON_COMPARE, mark("Compare"), mark("Compare: the chat beside two runs")),
)
ROOMY = 190.0  # spacing units: a header so wide has room for labels


def show_view(name: str, state: AppState, ui: Ui) -> list[Action]:
    """Bring a view of the inspector to the front."""
    ui.request(f"view:{name}")
    if ui.shows_inspector:
        return []
    return [UseLayout("inspect"), ShowInspector(True)]


def width_of(ui: Ui, header: float) -> float:
    """Return the width, in pixels, that `draw` takes in a header of this width."""
    parts = (_segment(ui, label, header) for _, _, label, _ in LAYOUTS)
    return sum(parts) + ui.u(1) + ui.u(1.5) + ui.u(7)


def draw(state: AppState, ui: Ui, header: float) -> list[Action]:
    """Draw the layouts and the button of the inspector, from the cursor to the right."""
    actions: list[Action] = []
    inset, height = ui.u(0.5), ui.u(7)
    at, paint = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    widths = [_segment(ui, label, header) for _, _, label, _ in LAYOUTS]
    end = ImVec2(at.x + sum(widths) + 2 * inset, at.y + height)
    paint.add_rect_filled(at, end, ui.color("hover"), ui.u(1.75))
    x = at.x + inset
    for (name, icon, label, hint), width in zip(LAYOUTS, widths, strict=True):
        chosen = state.layouts.name == name
        imgui.set_cursor_screen_pos(ImVec2(x, at.y))
        if press_area(f"layout.{name}", ImVec2(width, height)) and not chosen:
            actions.append(UseLayout(name))
        ui.mark(f"layout.{name}")
        color = "link" if chosen else "text" if imgui.is_item_hovered() else "muted"
        tip(ui, with_keys(tr(hint), name))
        if chosen:
            low, high = ImVec2(x, at.y + inset), ImVec2(x + width, end.y - inset)
            paint.add_rect_filled(low, high, ui.color("accent_soft"), ui.u(1.5))
        with ui.font(style="small"):
            words = f"{icon}  {tr(label)}" if header >= ui.u(ROOMY) else icon
            size = imgui.calc_text_size(words)
            spot = ImVec2(round(x + (width - size.x) / 2), round(at.y + (height - size.y) / 2))
            paint.add_text(spot, ui.color(color), words)
        x += width
    imgui.set_cursor_screen_pos(ImVec2(end.x + ui.u(1.5), at.y))
    return actions + _draw_inspector(state, ui)


def _segment(ui: Ui, label: str, header: float) -> float:
    if header < ui.u(ROOMY):
        return ui.u(8)
    with ui.font(style="small"):
        return float(round(imgui.calc_text_size(f"{ICON_READ}  {tr(label)}").x)) + ui.u(5)


def _draw_inspector(state: AppState, ui: Ui) -> list[Action]:
    shown = ui.shows_inspector
    hint = with_keys(tr("Hide the inspector") if shown else tr("Show the inspector"), "inspector")
    if icon_button(ui, "layout.inspector", ICON_PANEL_RIGHT, hint, side=ui.u(7)):
        return [ShowInspector(not shown)]
    return []
