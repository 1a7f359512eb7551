"""The small parts every view is built from; each remembers where it was drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from imgui_bundle import ImVec2, imgui

from desktop.icons import ICON_CHECK, ICON_CLOSE, ICON_HELP
from desktop.ui import Ui

T = TypeVar("T", bound=str)
__all__ = [
    "button",
    "chooser",
    "facts",
    "heading",
    "help_mark",
    "icon_button",
    "line_slider",
    "meter",
    "picker",
    "popover",
    "primary_button",
    "progress",
    "row_button",
    "slider",
    "text",
    "tip",
    "toggle",
    "wrapped",
]


def tip(ui: Ui, words: str) -> None:
    """A tooltip for the last item, wrapped at a comfortable width."""
    if not words or not imgui.is_item_hovered(
        imgui.HoveredFlags_.delay_normal | imgui.HoveredFlags_.allow_when_disabled
    ):
        return
    with ui.styled(window_padding=(ui.u(3), ui.u(2))), ui.font(style="small"):
        if imgui.begin_tooltip():
            imgui.push_text_wrap_pos(ui.u(72))
            imgui.text_unformatted(words)
            imgui.pop_text_wrap_pos()
            imgui.end_tooltip()


def text(ui: Ui, words: str, color: str = "text", style: str = "body", bold: bool = False) -> None:
    """One line, not wrapped."""
    with ui.font("bold" if bold else "regular", style), ui.colored(text=color):
        imgui.text_unformatted(words)


def wrapped(ui: Ui, words: str, color: str = "muted", style: str = "small") -> None:
    """A paragraph with generous lines, as wide as there is room."""
    size = ui.theme.size(style)
    width, line = imgui.get_content_region_avail().x, float(round(size * 1.4))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    packed = ui.color(color)
    with ui.font(style=style):
        lines = wrap_lines(words, max(width, size), size)
        for number, part in enumerate(lines):
            y = at.y + number * line + (line - size) / 2
            draw.add_text(ImVec2(at.x, round(y)), packed, part)
    imgui.dummy(ImVec2(width, len(lines) * line))


@lru_cache(maxsize=2048)
def wrap_lines(words: str, width: float, size: float) -> tuple[str, ...]:
    """`words` broken at spaces to fit `width`, in the current font, whose size is `size`."""
    lines = [""]
    for part in re.split(r"(\s+)", words):
        wanted = lines[-1] + part
        if not lines[-1] or imgui.calc_text_size(wanted.rstrip()).x <= width:
            lines[-1] = wanted
        elif not part.isspace():
            lines.append(part)
    return tuple(line.rstrip() for line in lines)


def heading(ui: Ui, words: str, note: str = "") -> None:
    """The title of a section, with a sentence that teaches below it."""
    text(ui, words, bold=True)
    if note:
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(1))
        wrapped(ui, note)
    imgui.dummy(ImVec2(0, ui.u(0.5)))


def button(
    ui: Ui,
    name: str,
    label: str,
    icon: str = "",
    hint: str = "",
    enabled: bool = True,
    width: float = 0.0,
) -> bool:
    """A quiet button: text on a soft surface; as wide as its text where `width` is 0."""
    words = f"{icon}  {label}##{name}" if icon else f"{label}##{name}"
    imgui.begin_disabled(not enabled)
    clicked = imgui.button(words, ImVec2(width, 0))
    ui.mark(name)
    imgui.end_disabled()
    tip(ui, hint)
    return clicked


def primary_button(
    ui: Ui, name: str, label: str, hint: str = "", enabled: bool = True, width: float = 0.0
) -> bool:
    """The one button of a place that is most likely wanted."""
    colors = {"button": "accent", "button_hovered": "accent_hover", "button_active": "accent"}
    if not enabled:
        colors = {"button": "hover", "button_hovered": "hover", "button_active": "hover"}
    with ui.colored(text="on_accent" if enabled else "faint", **colors):
        clicked = imgui.button(f"{label}##{name}", ImVec2(width, 0)) and enabled
    ui.mark(name)
    tip(ui, hint)
    return clicked


def icon_button(
    ui: Ui,
    name: str,
    icon: str,
    hint: str,
    *,
    side: float = 0.0,
    active: bool = False,
    color: str = "muted",
    style: str = "body",
) -> bool:
    """A square with an icon, seen only when the pointer is over it."""
    side = side or ui.u(7)
    colors = {"button": "accent_soft" if active else "-", "button_hovered": "hover"}
    with (
        ui.colored(text="accent" if active else color, button_active="pressed", **colors),
        ui.styled(frame_padding=(0.0, 0.0)),
        ui.font(style=style),
    ):
        clicked = imgui.button(f"{icon}##{name}", ImVec2(side, side))
    ui.mark(name)
    tip(ui, hint)
    return clicked


def row_button(
    ui: Ui, name: str, label: str, note: str = "", chosen: bool = False, enabled: bool = True
) -> bool:
    """A full-width row of a list: a title, a small note under it, a tick where chosen."""
    draw, pad = imgui.get_window_draw_list(), ui.u(2)
    width = imgui.get_content_region_avail().x
    small = ui.theme.size("small")
    height = ui.theme.text + pad * 2 + (small + ui.u(0.75) if note else 0)
    at = imgui.get_cursor_screen_pos()
    imgui.begin_disabled(not enabled)
    clicked = imgui.invisible_button(name, ImVec2(max(width, 1.0), height))
    imgui.end_disabled()
    ui.mark(name)
    end = ImVec2(at.x + width, at.y + height)
    if imgui.is_item_hovered() or chosen:
        fill = "hover" if imgui.is_item_hovered() else "accent_soft"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    room = width - pad * 2 - (ui.u(6) if chosen else 0)
    color = ui.color("text" if enabled else "faint")
    with ui.font():
        draw.add_text(ImVec2(at.x + pad, at.y + pad), color, fit(label, room))
        if chosen:
            spot = ImVec2(end.x - pad - ui.theme.text, at.y + (height - ui.theme.text) / 2)
            draw.add_text(spot, ui.color("accent"), ICON_CHECK)
    if note:
        with ui.font(style="small"):
            spot = ImVec2(at.x + pad, at.y + pad + ui.theme.text + ui.u(0.75))
            draw.add_text(spot, ui.color("muted"), fit(note, room))
    return clicked


def fit(words: str, width: float) -> str:
    """`words` cut with an ellipsis so that they fit `width` in the current font."""
    if imgui.calc_text_size(words).x <= width:
        return words
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        fits = imgui.calc_text_size(words[:middle] + "…").x <= width
        low, high = (middle, high) if fits else (low, middle - 1)
    return words[:low].rstrip() + "…"


def help_mark(ui: Ui, words: str) -> None:
    imgui.same_line(0, ui.u(1))
    with ui.font(style="small"), ui.colored(text="faint"):
        imgui.text_unformatted(ICON_HELP)
    tip(ui, words)


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
    """A label with its value at the right, and a slim track below; returns the value."""
    _labelled(ui, label, shown or fmt % value, hint)
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(1.5))
    imgui.set_next_item_width(-1)
    flags = imgui.SliderFlags_.always_clamp | (imgui.SliderFlags_.logarithmic if log else 0)
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
    """A slim track of whole numbers with its value behind it, on one line; returns the value."""
    with ui.font(style="small"):
        room = max(imgui.calc_text_size(shown).x, ui.u(24)) + ui.u(2)
    imgui.set_next_item_width(max(width - room, ui.u(10)))
    clear = dict.fromkeys(
        ("frame_bg", "frame_bg_hovered", "frame_bg_active", "slider_grab", "slider_grab_active"),
        "-",
    )
    with ui.colored(**clear), ui.styled(frame_padding=(0.0, ui.u(0.5)), grab_min_size=ui.u(4)):
        flags = imgui.SliderFlags_.always_clamp
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
    """The slim line and the round knob of the slider that was the last item."""
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


def _labelled(ui: Ui, label: str, value: str, hint: str = "", color: str = "text") -> None:
    """A small label, and its value at the right edge of the same line."""
    with ui.font(style="small"):
        right = ui.right(imgui.calc_text_size(value).x)
    text(ui, label, color, style="small")
    if hint:
        tip(ui, hint)
        help_mark(ui, hint)
    imgui.same_line(right)
    text(ui, value, "muted", "small")


def toggle(ui: Ui, name: str, label: str, value: bool, hint: str = "") -> bool:
    """A switch with its label; returns the value."""
    height, width = ui.u(4.5), ui.u(8)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    label_width = imgui.calc_text_size(label).x
    if imgui.invisible_button(name, ImVec2(width + ui.u(2) + label_width, ui.u(6))):
        value = not value
    ui.mark(name)
    tip(ui, hint)
    top = at.y + (ui.u(6) - height) / 2
    fill = ui.color("accent" if value else "pressed")
    draw.add_rect_filled(ImVec2(at.x, top), ImVec2(at.x + width, top + height), fill, height / 2)
    x = at.x + (width - height / 2 if value else height / 2)
    draw.add_circle_filled(ImVec2(x, top + height / 2), height / 2 - ui.u(0.6), 0xFFFFFFFF)
    spot = ImVec2(at.x + width + ui.u(2), at.y + (ui.u(6) - ui.theme.text) / 2)
    draw.add_text(spot, ui.color("text"), label)
    return value


def chooser(
    ui: Ui, name: str, options: Sequence[tuple[T, str]], value: T, hints: Sequence[str] = ()
) -> T:
    """A few options side by side in one rounded bar, of equal width where all labels fit so;
    returns the value."""
    width = imgui.get_content_region_avail().x
    height, draw, at = ui.u(7.5), imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    shares = _shares(ui, [label for _, label in options], width)
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.75))
    for number, (option, label) in enumerate(options):
        left, share = at.x + sum(shares[:number]), shares[number]
        imgui.set_cursor_screen_pos(ImVec2(left, at.y))
        if imgui.invisible_button(f"{name}.{option}", ImVec2(share, height)):
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
    """Equal, or by the length of the labels where one does not fit its equal share."""
    equal = width / len(labels)
    with ui.font(style="small"):
        wanted = [imgui.calc_text_size(label).x + ui.u(3) for label in labels]
    if max(wanted) <= equal:
        return [equal] * len(labels)
    return [width * each / sum(wanted) for each in wanted]


def picker(
    ui: Ui, name: str, options: Sequence[tuple[T, str]], value: T, width: float, hint: str = ""
) -> T:
    """One of many, in a list that drops down; returns the value."""
    labels = dict(options)
    imgui.set_next_item_width(width)
    with ui.font(style="small"):
        shown = imgui.begin_combo(f"##{name}", labels[value])
        ui.mark(name)
        if shown:
            for option, label in options:
                if imgui.selectable(label, option == value)[0]:
                    value = option
                ui.mark(f"{name}.{option}")
            imgui.end_combo()
        else:
            tip(ui, hint)
    return value


def meter(ui: Ui, fraction: float, width: float, height: float, color: str = "accent") -> None:
    """A slim filled bar in the flow."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    fraction = min(1.0, max(0.0, fraction))
    radius = height / 2
    draw.add_rect_filled(at, ImVec2(at.x + width, at.y + height), ui.color("pressed"), radius)
    if fraction > 0:
        filled = max(width * fraction, height)
        draw.add_rect_filled(at, ImVec2(at.x + filled, at.y + height), ui.color(color), radius)
    imgui.dummy(ImVec2(width, height))


def progress(ui: Ui, label: str, fraction: float) -> None:
    """What is under way and how far, over the width there is."""
    _labelled(ui, label, f"{fraction:.0%}", color="muted")
    meter(ui, fraction, imgui.get_content_region_avail().x, ui.u(1.5))


def facts(ui: Ui, name: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """A table of names and values; the third of a row teaches, as a tooltip."""
    if not imgui.begin_table(name, 2):
        return
    for weight in (0.42, 0.58):
        imgui.table_setup_column("", imgui.TableColumnFlags_.width_stretch, weight)
    for label, value, hint in rows:
        imgui.table_next_row()
        imgui.table_next_column()
        text(ui, label, "muted", "small")
        tip(ui, hint)
        imgui.table_next_column()
        with ui.font(style="small"):
            imgui.text_unformatted(fit(value, imgui.get_content_region_avail().x))
            tip(ui, hint or value)
    imgui.end_table()


@contextmanager
def popover(
    ui: Ui, name: str, title: str, at: ImVec2, width: float, pivot: tuple[float, float] = (0, 0)
) -> Iterator[bool]:
    """A panel beside a button, opened by `ui.opened = name`; yields whether it is drawn."""
    if ui.opened == name:
        imgui.open_popup(name)
        ui.opened = ""
    bottom = imgui.get_main_viewport().size.y - ui.u(2)
    if pivot == (0, 0):  # hangs down from the button, but not out of the window
        at = ImVec2(at.x, max(ui.u(2), min(at.y, bottom - ui.memory.get(f"{name}.height", 0.0))))
    imgui.set_next_window_pos(at, imgui.Cond_.always, ImVec2(*pivot))
    room = bottom - ui.u(2)
    imgui.set_next_window_size_constraints(ImVec2(width, 0), ImVec2(width, room))
    with ui.styled(window_padding=(ui.u(4), ui.u(4)), item_spacing=(ui.u(2), ui.u(2))):
        shown = imgui.begin_popup(name, imgui.WindowFlags_.no_move)
    if not shown:
        yield False
        return
    side = ui.u(6)
    right = ui.right(side)
    text(ui, title, style="title", bold=True)
    imgui.same_line(right)
    closed = icon_button(ui, f"{name}.close", ICON_CLOSE, "Close (Esc)", side=side, style="small")
    if closed or imgui.is_key_pressed(imgui.Key.escape, False):
        imgui.close_current_popup()
    try:
        yield True
    finally:
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        ui.memory[f"{name}.height"] = size.y
        ui.rects[name] = (low.x, low.y, low.x + size.x, low.y + size.y)
        imgui.end_popup()
