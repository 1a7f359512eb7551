"""The keyboard's way through the panels: from one to the next, and through the tabs of one."""

from __future__ import annotations

from typing import Any

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.feature import View
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.widgets.ui import Ui

RAIL, STATUS = "##rail", "##status"
PAGE = "##host"  # where views are docked, or a page is shown in their place


class NextFocus(Struct):
    window: str = ""  # the name of the one whose first control gets the keyboard when it begins


def go(ui: Ui, step: int, shown: list[View]) -> None:
    """Give the keyboard to the next panel (step 1) or the one before (-1), around the window."""
    middle = [view.window for view in shown if _in_front(view)] or [PAGE]
    stops = [RAIL, *middle, STATUS]
    at = _current(stops)
    there = (at + step) % len(stops) if at is not None else stops.index(middle[0])
    _give(ui, stops[there])


def turn_tab(ui: Ui, step: int, shown: list[View]) -> None:
    """Show the next tab in the panel that has the keyboard, else in the first that has tabs."""
    groups = _groups(shown)
    if not groups:
        return
    names = [[view.window for view in group] for group in groups]
    current = _focused()
    number = next((n for n, windows in enumerate(names) if current in windows), 0)
    group = groups[number]
    front = next((n for n, view in enumerate(group) if _in_front(view)), 0)
    show(ui, group[(front + step) % len(group)])


def show(ui: Ui, view: View) -> None:
    """Bring a view's tab to the front and give it the keyboard."""
    _give(ui, view.window)


def enter(ui: Ui, name: str) -> None:
    """Give the keyboard to the first control of the view whose window was just begun, if it is the
    one to go to."""
    if ui.local(NextFocus).window == name:
        ui.local(NextFocus).window = ""
        window = imgui.internal.get_current_window()
        imgui.internal.focus_window(window)
        imgui.internal.nav_init_window(window, True)
        imgui.set_nav_cursor_visible(True)


def take() -> None:
    """Give the keyboard to the first control of the window that was just begun, without a ring."""
    window = imgui.internal.get_current_window()
    imgui.internal.focus_window(window)
    imgui.internal.nav_init_window(window, True)


def _give(ui: Ui, window: str) -> None:
    if window == _chat():
        ui.request("input")
        return
    imgui.set_window_focus(window)
    ui.local(NextFocus).window = window.partition("###")[2] or window.removeprefix("##")


def _chat() -> str:
    return VIEWS[0].window


def _focused() -> str:
    window: Any = imgui.get_current_context().nav_window
    return window.root_window.name if window is not None else ""


def _current(stops: list[str]) -> int | None:
    name = _focused()
    return stops.index(name) if name in stops else None


def _in_front(view: View) -> bool:
    window: Any = imgui.internal.find_window_by_name(view.window)
    if window is None:
        return False
    node = window.dock_node
    return bool(
        node is None or node.visible_window is None or node.visible_window.id_ == window.id_
    )


def _groups(shown: list[View]) -> list[list[View]]:
    """List the views that share a place, for each place with several."""
    groups: dict[int, list[View]] = {}
    for view in shown:
        window: Any = imgui.internal.find_window_by_name(view.window)
        if window is not None and window.dock_node is not None:
            groups.setdefault(window.dock_node.id_, []).append(view)
    return [group for group in groups.values() if len(group) > 1]
