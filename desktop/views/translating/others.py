"""The other hypotheses of a beam, with their scores."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import OtherTarget
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import help_mark, text

SCORE = mark(
    "The mean of the tokens' log probabilities, or as the model's length penalty has it: the "
    "higher, the likelier. The target above has the best."
)


def draw_others(state: AppState, ui: Ui) -> None:
    result = state.translating.result
    if result is None or not result.others:
        return
    imgui.dummy(ImVec2(0, ui.u(2)))
    text(ui, tr("Other hypotheses of the beam"), bold=True)
    help_mark(ui, tr(SCORE))
    for number, other in enumerate(result.others):
        _draw_other(ui, number, other)


def _draw_other(ui: Ui, number: int, other: OtherTarget) -> None:
    at, gutter = imgui.get_cursor_pos(), ui.u(16)
    with ui.font("mono", "small"), ui.colored(text="muted"):
        imgui.text_unformatted(f"{other.score:8.3f}")
    low = imgui.get_item_rect_min()
    imgui.set_cursor_pos(ImVec2(at.x + gutter, at.y - ui.u(0.25)))
    imgui.push_text_wrap_pos(0.0)
    imgui.text_unformatted(other.text or tr("(no text)"))
    imgui.pop_text_wrap_pos()
    high = imgui.get_item_rect_max()
    ui.rects[f"translating.other.{number}"] = (low.x, low.y, high.x, high.y)
