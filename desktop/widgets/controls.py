"""Controls that choose a value: sliders, switches, rows of options and lists that drop down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, labelled, tip

T = TypeVar("T", bound=str)
# The value stands beside the track, so there is no text in it to be written over.
SLIDER = imgui.SliderFlags_.always_clamp | imgui.SliderFlags_.no_input


def slider(
    ui: Ui,
    name: str,
    label: str,
    value: float,
    bounds: tuple[float, float],
    *,
    fmt: str = "%.2f",
    hint: str = "",
    whole: bool = False,
    log: bool = False,
    shown: str = "",
) -> float:
    """Draw a label with its value at the right, and a slim track below; return the value."""
    labelled(ui, label, shown or fmt % value, hint)
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(1.5))
    imgui.set_next_item_width(-1)
    flags = SLIDER | (imgui.SliderFlags_.logarithmic if log else 0)
    clear = dict.fromkeys(
        ("frame_bg", "frame_bg_hovered", "frame_bg_active", "slider_grab", "slider_grab_active"),
        "-",
    )
    with ui.colored(**clear), ui.styled(frame_padding=(0.0, ui.u(0.5)), grab_min_size=ui.u(4)):
        if whole:
            low, high = int(bounds[0]), int(bounds[1])
            _, value = imgui.slider_int(f"##{name}", int(value), low, high, "", flags)
        else:
            _, value = imgui.slider_float(f"##{name}", value, *bounds, "", flags)
    ui.mark(name)
    _draw_track(ui, _share(value, bounds, log))
    return value


def line_slider(
    ui: Ui, name: str, value: int, bounds: tuple[int, int], shown: str, width: float
) -> int:
    """Draw a slim track of whole numbers with its value behind it, on one line; return the
    value."""
    with ui.font(style="small"):
        room = max(imgui.calc_text_size(shown).x, ui.u(24)) + ui.u(2)
    imgui.set_next_item_width(max(width - room, ui.u(10)))
    clear = dict.fromkeys(
        ("frame_bg", "frame_bg_hovered", "frame_bg_active", "slider_grab", "slider_grab_active"),
        "-",
    )
    with ui.colored(**clear), ui.styled(frame_padding=(0.0, ui.u(0.5)), grab_min_size=ui.u(4)):
        flags = SLIDER
        value = imgui.slider_int(f"##{name}", value, *bounds, "", flags)[1]
    ui.mark(name)
    _draw_track(ui, _share(value, bounds, False))
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    imgui.same_line(0, ui.u(2))
    at, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    spot = ImVec2(at.x, round((low.y + high.y - small) / 2))  # in the middle of the track
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), shown)
    imgui.dummy(ImVec2(room - ui.u(2), small))
    return value


def _share(value: float, bounds: tuple[float, float], log: bool) -> float:
    low, high = bounds
    if log:
        value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _draw_track(ui: Ui, share: float) -> None:
    """Draw the slim line and the round knob of the slider that was the last item."""
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    draw, knob, thick = imgui.get_window_draw_list(), ui.u(2), ui.u(1)
    middle = (low.y + high.y) / 2
    x = low.x + knob + share * (high.x - low.x - knob * 2)
    top, bottom = middle - thick / 2, middle + thick / 2
    rest = ui.color("pressed")
    draw.add_rect_filled(ImVec2(low.x, top), ImVec2(high.x, bottom), rest, thick / 2)
    lit = imgui.is_item_hovered() or imgui.is_item_active()
    fill = ui.color("accent_hover" if lit else "accent")
    draw.add_rect_filled(ImVec2(low.x, top), ImVec2(x, bottom), fill, thick / 2)
    draw.add_circle_filled(ImVec2(x, middle), knob, fill)
    draw.add_circle_filled(ImVec2(x, middle), knob * 0.4, ui.color("on_accent"))


def toggle(ui: Ui, name: str, label: str, value: bool, hint: str = "") -> bool:
    """Draw a switch with its label; return the value."""
    height, width = ui.u(4.5), ui.u(8)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    label_width = imgui.calc_text_size(label).x
    if press_area(name, ImVec2(width + ui.u(2) + label_width, ui.u(6))):
        value = not value
    ui.mark(name)
    tip(ui, hint)
    top = at.y + (ui.u(6) - height) / 2
    fill = ui.color("accent" if value else "faint")
    draw.add_rect_filled(ImVec2(at.x, top), ImVec2(at.x + width, top + height), fill, height / 2)
    x = at.x + (width - height / 2 if value else height / 2)
    draw.add_circle_filled(ImVec2(x, top + height / 2), height / 2 - ui.u(0.6), 0xFFFFFFFF)
    spot = ImVec2(at.x + width + ui.u(2), at.y + (ui.u(6) - ui.theme.text) / 2)
    draw.add_text(spot, ui.color("text"), label)
    return value


def chooser(
    ui: Ui, name: str, options: Sequence[tuple[T, str]], value: T, hints: Sequence[str] = ()
) -> T:
    """Draw a few options side by side in one rounded bar, of equal width where all labels fit so;
    return the value."""
    width = imgui.get_content_region_avail().x
    height, draw, at = ui.u(7.5), imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    shares = _shares(ui, [label for _, label in options], width)
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.75))
    for number, (option, label) in enumerate(options):
        left, share = at.x + sum(shares[:number]), shares[number]
        imgui.set_cursor_screen_pos(ImVec2(left, at.y))
        if press_area(f"{name}.{option}", ImVec2(share, height)):
            value = option
        ui.mark(f"{name}.{option}")
        if hints:
            tip(ui, hints[number])
        inset = ui.u(0.5)
        low = ImVec2(left + inset, at.y + inset)
        high = ImVec2(left + share - inset, at.y + height - inset)
        color = "muted"
        if option == value:
            draw.add_rect_filled(low, high, ui.color("accent"), ui.u(1.5))
            color = "on_accent"
        elif imgui.is_item_hovered():
            draw.add_rect_filled(low, high, ui.color("pressed"), ui.u(1.5))
            color = "text"
        with ui.font(style="small"):
            shown = fit(label, share - ui.u(1))
            size = imgui.calc_text_size(shown)
            spot = ImVec2(left + (share - size.x) / 2, at.y + (height - size.y) / 2)
            draw.add_text(spot, ui.color(color), shown)
    return value


def _shares(ui: Ui, labels: Sequence[str], width: float) -> list[float]:
    """Return equal widths, or widths by the length of the labels where one does not fit its equal
    share."""
    equal = width / len(labels)
    with ui.font(style="small"):
        wanted = [imgui.calc_text_size(label).x + ui.u(3) for label in labels]
    if max(wanted) <= equal:
        return [equal] * len(labels)
    return [width * each / sum(wanted) for each in wanted]


def picker_width(ui: Ui, label: str) -> float:
    """Return the pixels of a `picker` that shows the whole label, in the small font."""
    return float(imgui.calc_text_size(label).x) + _beside_label(ui) + 1


def _beside_label(ui: Ui) -> float:
    """Return the pixels of a picker beside its label: its padding and its arrow."""
    return float(imgui.get_style().frame_padding.x + ui.u(2.5) + ui.theme.size("small"))


def picker(
    ui: Ui, name: str, options: Sequence[tuple[T, str]], value: T, width: float, hint: str = ""
) -> T:
    """Draw one of many options, in a list that drops down; return the value."""
    labels = dict(options)
    imgui.set_next_item_width(width)
    at, draw, small = (
        imgui.get_cursor_screen_pos(),
        imgui.get_window_draw_list(),
        ui.theme.size("small"),
    )
    with ui.font(style="small"):
        pad, flags = imgui.get_style().frame_padding, imgui.ComboFlags_.no_arrow_button
        room = width - _beside_label(ui)
        shown = imgui.begin_combo(f"##{name}", fit(labels[value], room), flags)
        ui.mark(name)
        spot = ImVec2(round(at.x + width - ui.u(1.5) - small), round(at.y + pad.y))
        draw.add_text(spot, ui.color("muted"), ICON_CHEVRON_DOWN)
        if shown:
            for option, label in options:
                if imgui.selectable(label, option == value)[0]:
                    value = option
                ui.mark(f"{name}.{option}")
            imgui.end_combo()
        else:
            tip(ui, hint)
    return value
