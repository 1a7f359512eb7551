"""The three parts of an encoder-decoder's attention: which is shown, and what its axes say."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.attention.map import AxisLabels
from llm_lite.desktop.features.attention.state import PART_HINTS, PARTS, AttentionChoice
from llm_lite.desktop.features.attention.unkept import UNREAD, is_unread
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.ui import Ui

NO_TARGET = mark("Maps come with a target: write one in the chat pane.")


def draw_parts(choice: AttentionChoice, state: AppState, ui: Ui) -> AttentionChoice:
    """The chooser; of other models nothing."""
    if not state.writes_targets:
        return choice
    hints = [tr(hint) for hint in PART_HINTS]
    part = chooser(ui, "attention.part", tr_labels(PARTS), choice.part, hints)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    return choice.showing(part)


def problem_of(state: AppState, maps: HeadMaps) -> str:
    """Why there are no maps, as a sentence; "" where there are."""
    written = maps.length >= 2 and bool(state.translating.asked)
    waits = state.writes_targets and maps.layers and not written
    if waits:
        return tr(NO_TARGET)
    return tr(UNREAD) if is_unread(state, maps) else maps.problem


def labels_of(state: AppState) -> AxisLabels:
    """Texts of the tokens that maps have rows and columns of."""
    part = state.attention.part
    if not state.writes_targets or part == "decoder":
        return AxisLabels(state.positions, state.positions)
    source = tuple(token.text for token in state.translating.source)
    return AxisLabels(source if part == "encoder" else state.positions, source)
