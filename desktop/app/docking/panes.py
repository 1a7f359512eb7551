"""Windows that stay where they are: rail, status bar, and the room between them."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.ui import Ui

FIXED = (
    imgui.WindowFlags_.no_decoration
    | imgui.WindowFlags_.no_docking
    | imgui.WindowFlags_.no_move
    | imgui.WindowFlags_.no_saved_settings
    | imgui.WindowFlags_.no_bring_to_front_on_focus
    | imgui.WindowFlags_.no_nav_focus
)


class pane:  # noqa: N801 - reads as a function
    """A fixed window without padding or border, at a place."""

    def __init__(self, name: str, x: float, y: float, width: float, height: float, ui: Ui) -> None:
        self._name, self._at, self._size, self._ui = name, ImVec2(x, y), ImVec2(width, height), ui

    def __enter__(self) -> None:
        imgui.set_next_window_pos(self._at)
        imgui.set_next_window_size(self._size)
        styled = self._ui.styled(
            window_padding=(0.0, 0.0),
            window_rounding=0.0,
            window_border_size=0.0,
            window_min_size=(1.0, 1.0),
        )
        clear = imgui.WindowFlags_.no_background  # the frame is cleared to what it would be
        with styled:
            imgui.begin(f"##{self._name}", None, FIXED | clear)

    def __exit__(self, *error: object) -> None:
        imgui.end()


def edge(ui: Ui, line: tuple[int, int, int, int]) -> None:
    """A hairline along a side of the current window: its ends in shares of the size."""
    at, size, thick = imgui.get_window_pos(), imgui.get_window_size(), ui.u(0.25)
    x0, y0, x1, y1 = line
    low = ImVec2(at.x + x0 * size.x - x0 * thick, at.y + y0 * size.y)
    high = ImVec2(at.x + x1 * size.x, at.y + y1 * size.y + (0 if x0 else thick))
    imgui.get_window_draw_list().add_rect_filled(low, high, ui.color("border"))
