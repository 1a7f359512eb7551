"""Presets at the top of the sampling panel: a list to choose from, and what is done with them."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.composing.presets import (
    ChoosePreset,
    DeletePreset,
    ExportPreset,
    ImportPreset,
    SavePreset,
)
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.sampling.preset import LONGEST_NAME
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_SAVE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, primary_button, wrapped

HINT = mark(
    "A preset is a system prompt, all that is set here, the weight mode and the gains of heads."
)
LONGEST_PATH = 4096  # characters
NONE = mark("No preset")


def draw_presets(state: AppState, ui: Ui) -> list[Action]:
    side = ui.u(7)
    width = imgui.get_content_region_avail().x - side - ui.u(2)
    names = [("", tr(NONE)), *((name, name) for name in state.presets)]
    used = state.preset if state.preset in state.presets else ""
    chosen = picker(ui, "presets.list", names, used, width, tr(HINT))
    imgui.same_line()
    if icon_button(ui, "presets.more", ICON_SAVE, tr("Save, import, export or delete"), side=side):
        ui.memory["presets.open"] = not ui.memory.get("presets.open", False)
    actions: list[Action] = [ChoosePreset(chosen)] if chosen and chosen != used else []
    if ui.memory.get("presets.open", False):
        actions += _draw_tools(ui, used)
    imgui.separator()
    return actions


def _draw_tools(ui: Ui, used: str) -> list[Action]:
    wrapped(ui, tr(HINT))
    actions: list[Action] = []
    name = _input(ui, "presets.name", tr("Name"), used, LONGEST_NAME)
    label = tr("Replace") if name == used and used else tr("Save")
    if primary_button(ui, "presets.save", label, enabled=bool(name)):
        actions.append(SavePreset(name))
    imgui.same_line()
    if button(ui, "presets.delete", tr("Delete"), enabled=bool(used)):
        actions.append(DeletePreset(used))
        ui.memory.pop("presets.name", None)
    path = _input(ui, "presets.path", tr("Path of a file"), "", LONGEST_PATH)
    if button(
        ui, "presets.import", tr("Import"), hint=tr("Read a preset's file"), enabled=bool(path)
    ):
        actions.append(ImportPreset(path))
    imgui.same_line()
    hint = tr("Write what is set now to this file")
    if button(ui, "presets.export", tr("Export"), hint=hint, enabled=bool(path)):
        actions.append(ExportPreset(path))
    return actions


def _input(ui: Ui, name: str, label: str, first: str, longest: int) -> str:
    imgui.set_next_item_width(-1)
    typed = ui.memory.get(name) or first
    _, typed = imgui.input_text_with_hint(f"##{name}", label, typed)
    ui.mark(name)
    ui.memory[name] = typed = typed[:longest]
    return typed.strip()
