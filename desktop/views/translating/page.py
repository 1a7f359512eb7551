"""A source to write, the target that grows below it, and the other hypotheses of its beam."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.translating.others import draw_others
from llm_lite.desktop.views.translating.source import draw_source
from llm_lite.desktop.views.translating.target import draw_target
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column, wrapped

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
            draw_others(state, ui)
        else:
            imgui.dummy(ImVec2(0, ui.u(2)))
            wrapped(ui, tr(ABOUT))
            wrapped(ui, tr(POINT), "faint")
    imgui.dummy(ImVec2(0, ui.u(4)))
    imgui.end_child()
    imgui.end_child()
    return actions
