"""Deleting a model: what goes with it, and how much each choice frees."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.library.changing import RemoveModels, WeighRemoval
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.state.library.library_state import removal_choices
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import sentence, size
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import beside, button, popover, row_button, wrapped

PANEL = "library.remove"
WIDTH = 92.0  # spacing units
ABOUT = mark("It goes into the queue, and can be taken back until the queue is empty.")


def draw(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    """The button in a row of buttons, and its panel."""
    actions: list[Action] = []
    label = tr("Delete")
    beside(ui, label)
    if button(ui, f"{PANEL}.open", label, ICON_TRASH):
        ui.opened = PANEL
        actions.append(WeighRemoval(removal_choices(state.library, model)))
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(low.x, high.y + ui.u(1))
    with popover(ui, PANEL, tr("Delete"), at, ui.u(WIDTH)) as shown:
        return actions + (_draw_panel(state, ui, model) if shown else [])


def _draw_panel(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    removal = state.library.removal
    notes: dict[str, str] = {}  # sentences once, in their order, and their colours
    for number, names in enumerate(removal_choices(state.library, model)):
        weighed = None if removal is None else removal.get(names)
        able = weighed is not None and not weighed.problem
        note = tr("Measuring the size") if weighed is None else tr("not possible")
        if weighed is not None and able:
            note = tr("frees {size}").format(size=size(weighed.freed))
            notes |= dict.fromkeys(weighed.notes, "text")
        elif weighed is not None:
            notes[weighed.problem] = "warning"
        label = _label(model, names)
        if row_button(ui, f"{PANEL}.{number}", f"{ICON_TRASH}  {label}", note, enabled=able):
            imgui.close_current_popup()
            return [RemoveModels(names)]
    for words, color in notes.items():
        wrapped(ui, sentence(words), color)
    if state.model is not None and state.model.path == str(model.path):
        wrapped(ui, tr("It is in use: what is mapped stays until another model is opened."))
    wrapped(ui, tr(ABOUT))
    return []


def _label(model: LocalModel, names: tuple[str, ...]) -> str:
    others = [name for name in names if name != model.name]
    if not others:
        return tr("This model: {name}").format(name=model.name)
    if others == [model.made_of]:
        if model.name in names:
            return tr("Both: this one and its source")
        return tr("Its source: {name}").format(name=others[0])
    if model.name in names:
        words = trn(
            "All: this model and {n} variant", "All: this model and {n} variants", len(others)
        )
    else:
        words = trn(
            "What was made of it: {n} variant", "What was made of it: {n} variants", len(others)
        )
    return words.format(n=len(others))
