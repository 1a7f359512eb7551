"""The line of tokens above every step: the followed one can be chosen here, layer and head too."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.lesson.following import FollowPosition, OpenLayer, TypeSentence
from llm_lite.desktop.actions.lesson.sentence import followed, layer_of, length_of, sentence
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_LEFT, ICON_CHEVRON_RIGHT, ICON_EDIT
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, tip


def draw_sentence(state: AppState, ui: Ui) -> list[Action]:
    position = followed(state)
    if position is None or state.model is None:
        return []
    actions: list[Action] = []
    chosen, own = _chosen_width(ui), tr("Another sentence")
    with ui.font():
        own_width = imgui.calc_text_size(f"{ICON_EDIT}  {own}").x + ui.u(6)
    height = ui.u(8)
    room = imgui.get_content_region_avail().x - chosen - own_width - ui.u(6)
    top = imgui.get_cursor_screen_pos()
    flags = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
    imgui.begin_child("lesson.sentence", ImVec2(room, height), FLAT, flags)
    actions += _draw_tokens(state, ui, position, height)
    imgui.end_child()
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + ui.u(3), top.y + ui.u(0.25)))
    if button(ui, "lesson.own", own, ICON_EDIT, tr("Follow a token of a sentence of your own")):
        actions.append(TypeSentence(True))
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + own_width + ui.u(6), top.y + ui.u(0.25)))
    actions += _draw_choice(state, ui)
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + height + ui.u(2)))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_tokens(state: AppState, ui: Ui, position: int, height: float) -> list[Action]:
    """Tiles that can be pressed; where they do not fit, those around the followed one."""
    shown, gap, side = sentence(state, position), ui.u(1), ui.u(5)
    with ui.font(style="small"):
        words = {p: visible(state.positions[p]) for p in shown}
        widths = {p: imgui.calc_text_size(w).x + ui.u(3) for p, w in words.items()}
    room = imgui.get_content_region_avail().x - 2 * (side + gap)
    first, last = _fitting(widths, position, room, gap)
    actions: list[Action] = []
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    for name, icon, to, hint in (
        ("before", ICON_CHEVRON_LEFT, position - 1, tr("The previous token")),
        ("after", ICON_CHEVRON_RIGHT, position + 1, tr("The next token")),
    ):
        if name == "after":
            imgui.set_cursor_screen_pos(ImVec2(at.x + room + side + 2 * gap, at.y + ui.u(1.5)))
        else:
            imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(1.5)))
        able = 0 <= to < length_of(state)
        imgui.begin_disabled(not able)
        if icon_button(ui, f"lesson.token.{name}", icon, hint, side=side) and able:
            actions.append(FollowPosition(to))
        imgui.end_disabled()
    x = at.x + side + gap
    for place in range(first, last + 1):
        low = ImVec2(x, at.y + ui.u(1))
        size = ImVec2(widths[place], height - ui.u(2))
        imgui.set_cursor_screen_pos(low)
        if press_area(f"lesson.token.{place}", size):
            actions.append(FollowPosition(place))
        ui.mark(f"lesson.token.{place}")
        over = imgui.is_item_hovered()
        tip(ui, tr("Follow this token, at position {n:,}").format(n=place))
        on, later = place == position, place > position
        fill = "accent" if on else "pressed" if over else "hover"
        high = ImVec2(x + size.x, low.y + size.y)
        draw.add_rect_filled(
            low, high, ui.color(fill, 0.4 if later and not over else 1), ui.u(1.25)
        )
        small = ui.theme.size("small")
        ink = "on_accent" if on else "faint" if later else "text"
        spot = ImVec2(round(x + ui.u(1.5)), round(low.y + (size.y - small) / 2 - ui.u(0.25)))
        draw.add_text(ui.fonts["regular"], small, spot, ui.color(ink), words[place])
        x += widths[place] + gap
    return actions


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
    hint = tr("Which layer the lesson opens")
    chosen = int(picker(ui, "lesson.layer", layers, str(layer), ui.u(24), hint))
    imgui.same_line(0, ui.u(2))
    hint = tr("Which head of the layer the lesson opens")
    other = int(picker(ui, "lesson.head", heads, str(head), ui.u(22), hint))
    if (chosen, other) == (layer, head):
        return []
    return [OpenLayer(chosen, None if other == head and chosen_head is None else other)]
