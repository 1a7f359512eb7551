"""The small parts every view is built from; each remembers where it was drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_CLOSE, ICON_HELP
from llm_lite.desktop.widgets.theme import MEASURE
from llm_lite.desktop.widgets.ui import Ui

TOP_SHARE = 0.12  # of the window: a popover that begins there is scrolled rather than moved up
_RESTED_ON = int(imgui.HoveredFlags_.delay_normal | imgui.HoveredFlags_.allow_when_disabled)


def column(ui: Ui) -> tuple[float, float]:
    """Return offset and width of the reading column in the current window."""
    room = imgui.get_content_region_avail().x
    width = min(room - ui.u(6), float(round(MEASURE * ui.theme.text)))
    return float(round((room - width) / 2)), width


def tip(ui: Ui, words: str) -> None:
    """Show a tooltip for the last item, wrapped at a comfortable width."""
    if not words or not imgui.is_item_hovered(_RESTED_ON):
        return
    with ui.styled(window_padding=(ui.u(3), ui.u(2))), ui.font(style="small"):
        if imgui.begin_tooltip():
            imgui.push_text_wrap_pos(ui.u(72))
            imgui.text_unformatted(words)
            imgui.pop_text_wrap_pos()
            imgui.end_tooltip()


def text(ui: Ui, words: str, color: str = "text", style: str = "body", bold: bool = False) -> None:
    """Draw one line, not wrapped."""
    with ui.font("bold" if bold else "regular", style), ui.colored(text=color):
        imgui.text_unformatted(words)


def wrapped(ui: Ui, words: str, color: str = "muted", style: str = "small") -> None:
    """Draw a paragraph with generous lines, as wide as there is room."""
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
    """Break `words` at spaces to fit `width`, in the current font, whose size is `size`; a word
    that is longer than a line, as a path, is broken anywhere."""
    lines = [""]
    for part in (piece for word in re.split(r"(\s+)", words) for piece in _pieces(word, width)):
        wanted = lines[-1] + part
        if not lines[-1] or imgui.calc_text_size(wanted.rstrip()).x <= width:
            lines[-1] = wanted
        elif not part.isspace():
            lines.append(part)
    return tuple(line.rstrip() for line in lines)


def _pieces(word: str, width: float) -> Iterator[str]:
    """Yield a word that fits a line, or its parts that do."""
    while imgui.calc_text_size(word).x > width and len(word) > 1 and not word.isspace():
        low, high = 1, len(word)
        while low < high:
            middle = (low + high + 1) // 2
            fits = imgui.calc_text_size(word[:middle]).x <= width
            low, high = (middle, high) if fits else (low, middle - 1)
        yield word[:low]
        word = word[low:]
    yield word


def heading(ui: Ui, words: str, note: str = "") -> None:
    """Draw the title of a section, with a sentence that teaches below it."""
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
    """Draw a quiet button, text on a soft surface, as wide as its text where `width` is 0; return
    whether it was pressed."""
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
    """Draw the one button of a place that is most likely wanted; return whether it was pressed."""
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
    """Draw a square with an icon, seen only when the pointer is over it; return whether it was
    pressed."""
    side = side or ui.u(7)
    colors = {"button": "accent_soft" if active else "-", "button_hovered": "hover"}
    with (
        ui.colored(text="link" if active else color, button_active="pressed", **colors),
        ui.styled(frame_padding=(0.0, 0.0)),
        ui.font(style=style),
    ):
        clicked = imgui.button(f"{icon}##{name}", ImVec2(side, side))
    ui.mark(name)
    tip(ui, hint)
    return clicked


def beside(ui: Ui, label: str) -> None:
    """Place the next button beside the last one, or below it where there is no room."""
    imgui.same_line(0, ui.u(2))
    icon = ui.u(7) + 2 * imgui.get_style().frame_padding.x
    if imgui.get_content_region_avail().x < imgui.calc_text_size(label).x + icon:
        imgui.new_line()


def row_button(
    ui: Ui,
    name: str,
    label: str,
    note: str = "",
    chosen: bool = False,
    enabled: bool = True,
    taken: float = 0.0,
) -> bool:
    """Draw a full-width row of a list: a title, a small note under it, a tick where chosen. Words
    leave `taken` pixels at the right to what is drawn over it. Return whether it was pressed."""
    draw, pad = imgui.get_window_draw_list(), ui.u(2)
    width = imgui.get_content_region_avail().x
    small = ui.theme.size("small")
    height = ui.theme.text + pad * 2 + (small + ui.u(0.75) if note else 0)
    at = imgui.get_cursor_screen_pos()
    imgui.begin_disabled(not enabled)
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    imgui.end_disabled()
    ui.mark(name)
    end = ImVec2(at.x + width, at.y + height)
    if imgui.is_item_hovered() or chosen:
        fill = "hover" if imgui.is_item_hovered() else "accent_soft"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    room = width - pad * 2 - (ui.u(6) if chosen else 0) - taken
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
    """Return `words` cut with an ellipsis so that they fit `width` in the current font."""
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


def labelled(ui: Ui, label: str, value: str, hint: str = "", color: str = "text") -> None:
    """Draw a small label, and its value at the right edge of the same line."""
    with ui.font(style="small"):
        right = ui.right(imgui.calc_text_size(value).x)
    text(ui, label, color, style="small")
    if hint:
        tip(ui, hint)
        help_mark(ui, hint)
    imgui.same_line(right)
    text(ui, value, "muted", "small")


def meter(ui: Ui, fraction: float, width: float, height: float, color: str = "accent") -> None:
    """Draw a slim filled bar in the flow."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    fraction = min(1.0, max(0.0, fraction))
    radius = height / 2
    draw.add_rect_filled(at, ImVec2(at.x + width, at.y + height), ui.color("pressed"), radius)
    if fraction > 0:
        filled = max(width * fraction, height)
        draw.add_rect_filled(at, ImVec2(at.x + filled, at.y + height), ui.color(color), radius)
    imgui.dummy(ImVec2(width, height))


def progress(ui: Ui, label: str, fraction: float) -> None:
    """Draw what is under way and how far, over the width there is."""
    labelled(ui, label, f"{fraction:.0%}", color="muted")
    meter(ui, fraction, imgui.get_content_region_avail().x, ui.u(1.5))


def facts(ui: Ui, name: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Draw a table of names and values; the third of a row teaches, as a tooltip."""
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


class Popovers(Struct):
    """The id of the window of each popover, and whether it was shown in the last frame."""

    windows: dict[str, int] = field(default_factory=dict)
    shown: dict[str, bool] = field(default_factory=dict)


def _next_height(ui: Ui, name: str) -> float:
    """Return the height that a popover will have in this frame, by what it held in the last one."""
    window = imgui.internal.find_window_by_id(ui.local(Popovers).windows.get(name, 0))
    if window is None:
        return 0.0
    return float(imgui.internal.calc_window_next_auto_fit_size(window).y)


@contextmanager
def popover(
    ui: Ui, name: str, title: str, at: ImVec2, width: float, pivot: tuple[float, float] = (0, 0)
) -> Iterator[bool]:
    """A panel beside a button, opened by `ui.opened = name`; yields whether it is drawn."""
    if ui.opened == name:
        imgui.open_popup(name)
        ui.opened = ""
    size, edge = imgui.get_main_viewport().size, ui.u(2)
    bottom = size.y - ui.status_height - ui.u(1)
    width = min(width, size.x - 2 * edge)
    x = max(edge, min(at.x, size.x - edge - width))
    if pivot[1]:  # stands on the button
        y = min(at.y, bottom)
        room = y - edge
    elif at.y < TOP_SHARE * size.y:  # below a button of the header, which stays in sight
        y = max(edge, at.y)
        room = bottom - y
    else:  # hangs down from the button; what is taller than the room below it moves up
        room, y = bottom - edge, at.y
        if y + min(_next_height(ui, name), room) > bottom:
            y, pivot = bottom, (0, 1)
    imgui.set_next_window_pos(ImVec2(x, y), imgui.Cond_.always, ImVec2(*pivot))
    imgui.set_next_window_size_constraints(ImVec2(width, 0), ImVec2(width, room))
    with ui.styled(window_padding=(ui.u(4), ui.u(4)), item_spacing=(ui.u(2), ui.u(2))):
        shown = imgui.begin_popup(name, imgui.WindowFlags_.no_move)
    kept = ui.local(Popovers)
    was, kept.shown[name] = kept.shown.get(name, False), shown
    if not shown:
        if was and imgui.is_key_pressed(imgui.Key.escape, False):  # Dear ImGui has closed it
            ui.request("input")
        yield False
        return
    side = ui.u(6)
    right = ui.right(side)
    text(ui, title, style="title", bold=True)
    imgui.same_line(right)
    imgui.push_item_flag(imgui.ItemFlags_.no_nav_default_focus, True)
    closed = icon_button(ui, f"{name}.close", ICON_CLOSE, tr("Close"), side=side, style="small")
    imgui.pop_item_flag()
    if closed or imgui.is_key_pressed(imgui.Key.escape, False):
        imgui.close_current_popup()
        ui.request("input")
    try:
        yield True
    finally:
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        kept.windows[name] = imgui.internal.get_current_window().id_
        ui.rects[name] = (low.x, low.y, low.x + size.x, low.y + size.y)
        imgui.end_popup()
