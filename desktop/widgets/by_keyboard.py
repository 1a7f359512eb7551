"""Controls that we draw ourselves, for the keyboard: Dear ImGui moves through them, and rings the
one that has it."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.ui import Rect

FLAT = imgui.ChildFlags_.nav_flattened  # a part of a window whose controls are reached as its own
_FOCUSED = imgui.FocusedFlags_.root_and_child_windows


def is_entered() -> bool:
    """Return whether Enter was pressed, of the letters or of the digits."""
    keys = imgui.Key
    return imgui.is_key_pressed(keys.enter, False) or imgui.is_key_pressed(keys.keypad_enter, False)


def press_area(name: str, size: ImVec2) -> bool:
    """Draw a place to press; return whether it was pressed by the mouse, Space or Enter."""
    return bool(imgui.invisible_button(name, size, imgui.ButtonFlags_.enable_nav))


def is_on_its_way() -> bool:
    """Return whether the keyboard goes through the controls of the current window."""
    io = imgui.get_io()
    return io.nav_visible and not io.want_text_input and imgui.is_window_focused(_FOCUSED)


def cell(name: str, rect: Rect) -> tuple[bool, bool]:
    """Place one of hundreds of places to press, which is a control only while the keyboard goes
    through them. Return whether it has the keyboard, and whether it was pressed with it. The cursor
    stays where it was."""
    if not is_on_its_way():
        return False, False
    back = imgui.get_cursor_screen_pos()
    imgui.set_cursor_screen_pos(ImVec2(rect[0], rect[1]))
    pressed = press_area(name, ImVec2(rect[2] - rect[0], rect[3] - rect[1]))
    focused = imgui.is_item_focused()
    imgui.set_cursor_screen_pos(back)
    by_mouse = imgui.is_mouse_down(0) or imgui.is_mouse_released(0)
    return focused, pressed and not by_mouse
