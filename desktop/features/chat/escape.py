"""The Escape key, where nothing else on the screen answers it."""

from __future__ import annotations

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.selection.find import is_find_open
from llm_lite.desktop.features.selection.selection import selection
from llm_lite.desktop.widgets.ui import Ui


class EscapeKey(Struct):
    taken: bool = False  # something had the key in the frame before


def escape_is_free(state: AppState, ui: Ui) -> bool:
    """Tell whether Escape was pressed just now and closes no list, leaves no field and clears no
    selection. Call it in every frame: what had the key may be gone when this one is drawn."""
    key, taken = ui.local(EscapeKey), _is_taken(state, ui)
    was_taken, key.taken = key.taken, taken
    return imgui.is_key_pressed(imgui.Key.escape, False) and not (taken or was_taken)


def _is_taken(state: AppState, ui: Ui) -> bool:
    selected = selection(state, ui)
    return (
        imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        or imgui.get_io().want_text_input
        or imgui.is_any_item_active()
        or is_find_open(ui)
        or (selected is not None and not selected.empty)
    )
