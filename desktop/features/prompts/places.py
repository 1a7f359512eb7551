"""What stands in double braces in a prompt is asked for before it is inserted."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.prompts.model import InsertPrompt
from llm_lite.desktop.features.prompts.state import SavedPrompt, filled
from llm_lite.desktop.language.incoming import TYPED
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import popover, primary_button, text, wrapped

PANEL = "prompts.places"
_ASKED = "prompts.asked"


def is_asking(ui: Ui) -> bool:
    return _ASKED in ui.memory


def use(ui: Ui, prompt: SavedPrompt) -> list[Action]:
    """Insert it, or ask first for what it leaves open."""
    if not prompt.places:
        return [InsertPrompt(prompt.text)]
    ui.memory[_ASKED] = (prompt, dict.fromkeys(prompt.places, ""))
    ui.memory[f"{_ASKED}.focus"] = True
    ui.opened = PANEL
    return []


def draw_places(ui: Ui, at: ImVec2) -> list[Action]:
    """With its lower edge at `at`."""
    if _ASKED not in ui.memory:
        return []
    prompt, values = ui.memory[_ASKED]
    with popover(ui, PANEL, prompt.name, at, ui.u(104), (0, 1)) as shown:
        if not shown:
            if ui.opened != PANEL:
                ui.memory.pop(_ASKED, None)
            return []
        wrapped(ui, tr("Fill what the prompt leaves open. What stays empty is left as it is."))
        entered = _draw_fields(ui, values)
        clicked = primary_button(ui, f"{PANEL}.insert", tr("Insert"))
        if not clicked and not entered:
            return []
        imgui.close_current_popup()
        given = {name: value for name, value in values.items() if value.strip()}
        return [InsertPrompt(filled(prompt.text, given))]


def _draw_fields(ui: Ui, values: dict[str, str]) -> bool:
    """Whether Enter ended the last one."""
    on = ui.memory.pop(f"{_ASKED}.focus", False)
    for number, name in enumerate(values):
        text(ui, name, "muted", "small")
        imgui.set_next_item_width(-1)
        if on:
            imgui.set_keyboard_focus_here()
        flags = imgui.InputTextFlags_.enter_returns_true
        done, said = imgui.input_text(f"##{PANEL}.{number}", values[name], flags)
        ui.mark(f"{PANEL}.{number}")
        values[name] = said[:TYPED]
        on = done  # Enter leads to the next one
    return bool(on)
