"""Keys as they are drawn in lists: each in a small frame of its own."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.ui import Ui


def caps(written: str) -> list[str]:
    """Return the keys of a chord, where `+` joins them and may be the last of them."""
    if written.endswith("+"):
        return [*(part for part in written[:-1].split("+") if part), "+"]
    return written.split("+")


def keys_width(ui: Ui, written: str) -> float:
    found = caps(written)
    return sum(_width(ui, cap) for cap in found) + ui.u(0.75) * (len(found) - 1)


def draw_keys(ui: Ui, written: str, at: ImVec2, line: float) -> None:
    """Draw keys in the middle of a line so many pixels high, from `at` to the right."""
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    height = small + ui.u(1.5)
    x, top = at.x, round(at.y + (line - height) / 2)
    font = ui.fonts["regular"]
    for cap in caps(written):
        width = _width(ui, cap)
        low, high = ImVec2(x, top), ImVec2(x + width, top + height)
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        draw.add_rect(low, high, ui.color("border"), ui.u(1), max(1.0, ui.u(0.25)))
        with ui.font(style="small"):
            wide = imgui.calc_text_size(cap).x
        spot = ImVec2(round(x + (width - wide) / 2), round(top + (height - small) / 2))
        draw.add_text(font, small, spot, ui.color("muted"), cap)
        x += width + ui.u(0.75)


def _width(ui: Ui, cap: str) -> float:
    with ui.font(style="small"):
        return max(float(round(imgui.calc_text_size(cap).x)) + ui.u(2.5), ui.u(5.5))
