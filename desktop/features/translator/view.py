"""A source to write, the target that grows below it, and the other hypotheses of its beam."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import OtherTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.translator.model import ChooseHypothesis
from llm_lite.desktop.features.translator.source import draw_source
from llm_lite.desktop.features.translator.target import draw_target
from llm_lite.desktop.language.incoming import SENTENCE, fit_lines
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import signed
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column, help_mark, text, tip, wrapped

SCORE = mark(
    "The mean of the tokens' log probabilities, or as the model's length penalty has it: the "
    "higher, the likelier. The beam chose the highest."
)
LOOK = mark("Show this one as the target: its tokens, and where they look.")
GUTTER = 16.0  # spacing units of the column of scores


ABOUT = mark(
    "This model is an encoder-decoder: its encoder reads the source, all of it at once, and its "
    "decoder writes a target about it. It holds no conversation."
)
POINT = mark(
    "Point at a token: of the target, to see where in the source it looks; of the source, to see "
    "which tokens of the target look at it. A click holds its row in the maps."
)


def draw_page(state: AppState, ui: Ui) -> list[Action]:
    """In what is left of the chat pane; it scrolls."""
    actions: list[Action] = []
    offset, width = column(ui)  # before the scrollbar takes its part
    imgui.begin_child("translating", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    imgui.set_cursor_pos((imgui.get_cursor_pos_x() + offset, ui.u(2)))
    imgui.begin_child("column", ImVec2(width, 0), imgui.ChildFlags_.auto_resize_y | FLAT)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1.5))):
        actions += draw_source(state, ui)
        if state.translating.asked:
            actions += draw_target(state, ui)
            actions += draw_others(state, ui)
        else:
            imgui.dummy(ImVec2(0, ui.u(2)))
            wrapped(ui, tr(ABOUT))
            wrapped(ui, tr(POINT), "faint")
    imgui.dummy(ImVec2(0, ui.u(4)))
    imgui.end_child()
    imgui.end_child()
    return actions


def draw_others(state: AppState, ui: Ui) -> list[Action]:
    result = state.translating.result
    if result is None or not result.others:
        return []
    imgui.dummy(ImVec2(0, ui.u(2)))
    text(ui, tr("Other hypotheses of the beam"), bold=True)
    help_mark(ui, tr(SCORE))
    actions: list[Action] = []
    for number, other in enumerate(result.others):
        if _draw_other(ui, number, other):
            actions.append(ChooseHypothesis(number))
    return actions


def _draw_other(ui: Ui, number: int, other: OtherTarget) -> bool:
    """Whether it was pressed."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    words, room = fit_lines(other.text, SENTENCE) or tr("(no text)"), width - ui.u(GUTTER)
    with ui.font():
        height = imgui.calc_text_size(words, wrap_width=room).y + ui.u(1)
    pressed = press_area(f"translating.other.{number}", ImVec2(width, height))
    ui.mark(f"translating.other.{number}")
    tip(ui, tr(LOOK))
    draw, below = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    if imgui.is_item_hovered():
        end = ImVec2(at.x + width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    drop = (ui.theme.text - ui.theme.size("small")) / 2
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(0.5) + drop))
    with ui.font("mono", "small"), ui.colored(text="muted"):
        imgui.text_unformatted(signed(other.score, "8.3f"))
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(GUTTER), at.y + ui.u(0.5)))
    imgui.push_text_wrap_pos(0.0)
    imgui.text_unformatted(words)
    imgui.pop_text_wrap_pos()
    imgui.set_cursor_screen_pos(below)
    imgui.dummy(ImVec2(0, 0))
    return pressed
