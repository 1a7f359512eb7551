"""Where no queries of the conversation are kept: why, and the button that reads it again."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text, wrapped

WHY = mark(
    "No queries are stored for this text: other weights or another executor read it, or "
    "it came from a saved cache. Maps begin with the next token, or with all of the text "
    "once it is read again."
)
NO_TEXT = mark("No queries are stored yet: write a text, and its maps appear.")
UNREAD = mark("The cache does not hold this conversation: its maps appear once it is read.")


def is_unread(state: AppState, maps: HeadMaps) -> bool:
    """Return whether a conversation is shown that the cache does not hold."""
    here = state.model is not None and state.holds_conversations and not state.elsewhere
    shown = here and bool(state.messages) and not state.running
    return shown and bool(maps.layers) and maps.length < 2


def draw_unkept(state: AppState, ui: Ui, name: str) -> list[Action]:
    if state.encodes:
        wrapped(ui, tr(NO_TEXT))
        return []
    wrapped(ui, tr(WHY))
    imgui.dummy(ImVec2(0, ui.u(1)))
    if state.reading is not None:
        words = tr("Reading {n:,} of {whole:,} tokens")
        words = words.format(n=state.reading.done, whole=state.reading.total)
        text(ui, words, "muted", "small")
        return []
    if state.running or state.model is None or not state.messages:
        return []
    if not state.holds_conversations:
        return []
    return draw_read_again(ui, name)


def draw_read_again(ui: Ui, name: str) -> list[Action]:
    again = button(ui, f"{name}.read", tr("Read this conversation again"))
    return [ReadAgain(afresh=True)] if again else []
