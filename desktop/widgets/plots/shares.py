"""Bars of shares: the whole track is 100 %, so that bars of all rows and figures compare."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

LISTED = 25.0  # width of a list's bars, in spacing units


def filled(share: float, width: float) -> float:
    """Return how many pixels of a track `width` wide are filled: in proportion to the share, and
    one where it is nearly 0."""
    if not share > 0:
        return 0.0
    return max(width * min(share, 1.0), min(1.0, width))


def share_bar(ui: Ui, name: str, share: float, width: float, height: float) -> None:
    """Draw a bar in the flow whose track stands for 100 %; `name` finds what is filled of it."""
    draw_bar(ui, name, imgui.get_cursor_screen_pos(), share, width, height)
    imgui.dummy(ImVec2(width, height))


def draw_bar(ui: Ui, name: str, at: ImVec2, share: float, width: float, height: float) -> None:
    """Draw the bar of `share_bar` at a place of the screen; the cursor stays where it is."""
    draw = imgui.get_window_draw_list()
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("pressed"))
    long = filled(share, width)
    if long:
        draw.add_rect_filled(at, ImVec2(at.x + long, end.y), ui.color("accent"))
    if name:
        ui.rects[name] = (at.x, at.y, at.x + long, end.y)


def draw_share_lines(ui: Ui, name: str, lines: Sequence[tuple[str, float]]) -> None:
    """Draw texts of tokens, each with its share in words and as a bar."""
    for number, (label, share) in enumerate(lines):
        at, y = imgui.get_cursor_pos_x(), imgui.get_cursor_pos_y()
        text(ui, share_words(share), style="small")
        imgui.same_line(at + ui.u(12))
        imgui.set_cursor_pos_y(y + ui.u(1.25))
        share_bar(ui, f"{name}.{number}", share, ui.u(LISTED), ui.u(1))
        imgui.same_line(at + ui.u(15 + LISTED))
        imgui.set_cursor_pos_y(y)
        text(ui, visible(label), style="small")
        imgui.set_cursor_pos_y(y + ui.theme.size("small") + ui.u(1.5))
    imgui.dummy(ImVec2(0, 0))


def share_words(share: float) -> str:
    if share >= 0.0005:
        return f"{share:.1%}"
    return f"{100 * share:.1g}%" if share >= 1e-5 else "< 0.001%"
