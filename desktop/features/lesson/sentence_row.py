"""The line of tokens above every step: the followed one can be chosen here, layer and head too."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.lesson.model import FollowPosition, OpenLayer, TypeSentence
from llm_lite.desktop.features.lesson.sentence import (
    by_model,
    first_of,
    followed,
    layer_of,
    length_of,
    sentence,
)
from llm_lite.desktop.features.lesson.state import StepName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_LEFT, ICON_CHEVRON_RIGHT, ICON_EDIT
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, tip

NO_LAYER: tuple[StepName, ...] = (  # steps that open none
    "source", "tokens", "sampling", "choosing", "filling", "pooling", "cache", "summary",
)  # fmt: skip
LEAST_TOKENS = 60.0  # spacing units for the tiles
WHEEL = "lesson.wheel"  # in the memory of the window: the followed token, and how far it moved


def draw_sentence(state: AppState, ui: Ui) -> list[Action]:
    position = followed(state)
    if position is None or state.model is None:
        return []
    actions: list[Action] = []
    chosen, own = _chosen_width(ui), tr("Another sentence")
    with ui.font():
        own_width = imgui.calc_text_size(f"{ICON_EDIT}  {own}").x + ui.u(6)
    height, whole = ui.u(8), imgui.get_content_region_avail().x
    room = whole - chosen - own_width - ui.u(6)
    if narrow := room < ui.u(LEAST_TOKENS):
        own_width = ui.u(7.5)
        taken = 0.0 if state.lesson.name in NO_LAYER else chosen
        room = whole - taken - own_width - ui.u(6)
    top = imgui.get_cursor_screen_pos()
    flags = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
    imgui.begin_child("lesson.sentence", ImVec2(room, height), FLAT, flags)
    actions += _draw_tokens(state, ui, position, height)
    imgui.end_child()
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + ui.u(3), top.y + ui.u(0.25)))
    if _draw_own(ui, narrow, own):
        actions.append(TypeSentence(True))
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + own_width + ui.u(6), top.y + ui.u(0.25)))
    if state.lesson.name not in NO_LAYER:
        actions += _draw_choice(state, ui)
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + height + ui.u(2)))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_own(ui: Ui, narrow: bool, words: str) -> bool:
    """Its sign alone in a narrow window."""
    hint = tr("Follow a token of a sentence of your own")
    if narrow:
        return icon_button(ui, "lesson.own", ICON_EDIT, hint, side=ui.u(7.5))
    return button(ui, "lesson.own", words, ICON_EDIT, hint)


def _draw_tokens(state: AppState, ui: Ui, position: int, height: float) -> list[Action]:
    """Tiles that can be pressed; where they do not fit, those around the followed one, or where
    the mouse wheel has moved them."""
    shown, gap, side = sentence(state, position), ui.u(1), ui.u(5)
    with ui.font(style="small"):
        words = {p: visible(state.positions[p]) for p in shown}
        widths = {p: imgui.calc_text_size(w).x + ui.u(3) for p, w in words.items()}
        own, label = _first_of_model(state, shown), tr("the model:")
        if own in widths:  # what the model wrote begins here
            widths[own] += imgui.calc_text_size(label).x + ui.u(2)
    at, dots = imgui.get_cursor_screen_pos(), ui.u(4)
    room = imgui.get_content_region_avail().x - 2 * (side + gap) - 2 * dots
    first, last = _fitting(widths, _middle(ui, position, shown), room, gap)
    actions = _draw_arrows(state, ui, position, room + 2 * dots + gap)
    x = at.x + side + gap + dots
    if first > shown.start or shown.start > first_of(state, position):
        _say_dots(ui, x - dots, at.y, height)
    for place in range(first, last + 1):
        if place == own:
            spot = ImVec2(round(x + ui.u(1)), _middle_line(ui, at.y, height))
            with ui.font(style="small"):
                imgui.get_window_draw_list().add_text(spot, ui.color("faint"), label)
                taken = imgui.calc_text_size(label).x + ui.u(2)
            x, widths[place] = x + taken, widths[place] - taken
        rect = (x, at.y + ui.u(1), x + widths[place], at.y + height - ui.u(1))
        actions += _draw_token(state, ui, place, words[place], rect, place - position)
        x += widths[place] + gap
    if last < shown.stop - 1:
        _say_dots(ui, x, at.y, height)
    return actions


def _first_of_model(state: AppState, shown: range) -> int:
    """Where in the sentence what the model wrote begins; -1: it does not."""
    found = (place for place in shown if not state.encodes and by_model(state, place))
    return next(found, -1)


def _middle(ui: Ui, position: int, shown: range) -> int:
    """The token around which the others are shown: the followed one, moved by the wheel."""
    held = ui.memory.get(WHEEL)
    moved = held[1] if held is not None and held[0] == position else 0
    if imgui.is_window_hovered() and (wheel := imgui.get_io().mouse_wheel):
        moved -= round(math.copysign(max(1.0, 2 * abs(wheel)), wheel))
    moved = max(shown.start, min(position + moved, shown.stop - 1)) - position
    ui.memory[WHEEL] = (position, moved)
    return position + moved


def _middle_line(ui: Ui, top: float, height: float) -> float:
    return round(top + (height - ui.theme.size("small")) / 2 - ui.u(0.25))


def _say_dots(ui: Ui, x: float, top: float, height: float) -> None:
    """More tokens stand there."""
    spot, small = ImVec2(round(x), _middle_line(ui, top, height)), ui.theme.size("small")
    imgui.get_window_draw_list().add_text(ui.fonts["regular"], small, spot, ui.color("muted"), "…")


def _draw_arrows(state: AppState, ui: Ui, position: int, room: float) -> list[Action]:
    """To the tokens before and after the followed one, at both ends of the line."""
    actions, at, side = list[Action](), imgui.get_cursor_screen_pos(), ui.u(5)
    for name, icon, to, hint in (
        ("before", ICON_CHEVRON_LEFT, position - 1, tr("Follow the previous token")),
        ("after", ICON_CHEVRON_RIGHT, position + 1, tr("Follow the next token")),
    ):
        x = at.x if name == "before" else at.x + room + side + ui.u(1)
        imgui.set_cursor_screen_pos(ImVec2(x, at.y + ui.u(1.5)))
        able = 0 <= to < length_of(state)
        imgui.begin_disabled(not able)
        if icon_button(ui, f"lesson.token.{name}", icon, hint, side=side) and able:
            actions.append(FollowPosition(to))
        imgui.end_disabled()
    return actions


def _draw_token(
    state: AppState, ui: Ui, place: int, words: str, rect: Rect, after: int
) -> list[Action]:
    """One tile; `after`: how far it stands after the followed one."""
    x0, y0, x1, y1 = rect
    imgui.set_cursor_screen_pos(ImVec2(x0, y0))
    pressed = press_area(f"lesson.token.{place}", ImVec2(x1 - x0, y1 - y0))
    ui.mark(f"lesson.token.{place}")
    over, small, draw = (
        imgui.is_item_hovered(), ui.theme.size("small"), imgui.get_window_draw_list(),
    )  # fmt: skip
    hint = tr("Follow this token. It stands at position {n:,}; the first one is at 0.")
    tip(ui, hint.format(n=place))
    fill = "accent" if after == 0 else "pressed" if over else "hover"
    veil = 0.4 if after > 0 and not over else 1.0
    draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color(fill, veil), ui.u(1.25))
    ink = "on_accent" if after == 0 else "faint" if after > 0 else "text"
    spot = ImVec2(round(x0 + ui.u(1.5)), round(y0 + (y1 - y0 - small) / 2 - ui.u(0.25)))
    draw.add_text(ui.fonts["regular"], small, spot, ui.color(ink), words)
    return [FollowPosition(place)] if pressed else []


def _fitting(widths: dict[int, float], position: int, room: float, gap: float) -> tuple[int, int]:
    """The first and last of those around `position` that fit."""
    first = last = position
    used = widths.get(position, 0.0)
    while True:
        grown = False
        for place in (first - 1, last + 1):
            if place in widths and used + widths[place] + gap <= room:
                used += widths[place] + gap
                first, last, grown = min(first, place), max(last, place), True
        if not grown:
            return first, last


def _chosen_width(ui: Ui) -> float:
    return ui.u(24 + 22 + 2)


def _draw_choice(state: AppState, ui: Ui) -> list[Action]:
    """Which layer is opened, and which of its heads."""
    model = state.model
    assert model is not None
    trace, chosen_head = state.lesson.trace, state.lesson.head
    layer, head = layer_of(state), chosen_head if chosen_head is not None else 0
    if chosen_head is None and trace is not None:
        head = trace.head
    head = min(head, model.heads - 1)
    layers = [(str(i), tr("Layer {n}").format(n=i)) for i in range(model.layers)]
    heads = [(str(i), tr("Head {n}").format(n=i)) for i in range(model.heads)]
    hint = tr(
        "The model has {n} layers, one on top of the other and built alike. The lesson opens one "
        "of them; choose another one here."
    )
    hint = hint.format(n=model.layers)
    chosen = int(picker(ui, "lesson.layer", layers, str(layer), ui.u(24), hint))
    imgui.same_line(0, ui.u(2))
    hint = tr(
        "Each layer has {n} heads, which look at the text in different ways. The lesson takes the "
        "one that looks most at other tokens; choose another one here."
    )
    hint = hint.format(n=model.heads)
    other = int(picker(ui, "lesson.head", heads, str(head), ui.u(22), hint))
    if (chosen, other) == (layer, head):
        return []
    return [OpenLayer(chosen, None if other == head and chosen_head is None else other)]
