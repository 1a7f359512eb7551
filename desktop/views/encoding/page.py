"""The page of an encoder: three ways to use it, under one bar."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.texts.encoding import ChooseEncoding, encoder_of
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.state.encoding.encoding_state import EncodingMode
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.encoding import fill, pairs, text_page
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column, wrapped

MODES: tuple[tuple[EncodingMode, str], ...] = (
    ("text", mark("Text")), ("pairs", mark("Pairs")), ("fill", mark("Fill in")),
)  # fmt: skip
ABOUT: dict[EncodingMode, str] = {
    "text": mark(
        "An encoder reads a whole text at once and writes none: each token looks at those before "
        "and behind it. Attention shows where."
    ),
    "pairs": mark(
        "Each sentence becomes one vector. The cosine of two vectors says how alike the sentences "
        "are: 1 means the same, 0 nothing in common."
    ),
    "fill": mark(
        "The model guesses a masked token from what stands on both sides of it. That is what it "
        "was trained on."
    ),
}
NO_HEAD = mark(
    "This model has no masked-token head, so it cannot fill in words. Checkpoints that were made "
    "for it, as bert-base-uncased, have one."
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    encoder = encoder_of(state)
    if encoder is None:
        return []
    offset, width = column(ui)
    imgui.begin_child("encoding", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    imgui.set_cursor_pos(ImVec2(offset, ui.u(2)))
    imgui.begin_child("encoding.column", ImVec2(width, 0), imgui.ChildFlags_.auto_resize_y | FLAT)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(2))):
        actions = _draw_modes(state, ui)
        actions += _draw_page(state, ui, encoder)
    imgui.end_child()
    imgui.end_child()
    return actions


def _draw_modes(state: AppState, ui: Ui) -> list[Action]:
    choice = state.encoding.choice
    mode = chooser(ui, "encoding.mode", tr_labels(MODES), choice.mode)
    wrapped(ui, tr(ABOUT[choice.mode]))
    if mode == choice.mode:
        return []
    return [ChooseEncoding(replace(choice, mode=mode, typing=False))]


def _draw_page(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    mode = state.encoding.choice.mode
    if mode == "pairs":
        return pairs.draw(state, ui, encoder)
    if mode == "text":
        return text_page.draw(state, ui, encoder)
    if not encoder.mask_token:
        wrapped(ui, tr(NO_HEAD), "text")
        ui.mark("encoding.no_head")
        return []
    return fill.draw(state, ui, encoder)
