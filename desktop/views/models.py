"""The models: what is loaded, what comes along, what was opened before, and any other file."""

from __future__ import annotations

from imgui_bundle import imgui

from desktop.actions import Action, CancelLoading, ChooseFile, OpenModel
from desktop.icons import ICON_FOLDER_OPEN
from desktop.state import AppState
from desktop.ui import Ui
from desktop.units import duration, quantity, short_name, size
from desktop.widgets import button, facts, progress, row_button, text, wrapped


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    if state.load:
        actions += _draw_load(state, ui)
    elif state.model:
        _draw_model(state, ui)
    else:
        wrapped(ui, "No model is loaded.")
    actions += _draw_lists(state, ui)
    imgui.separator()
    if button(ui, "models.open", "Open a file", ICON_FOLDER_OPEN, "Open a GGUF file (Ctrl+O)"):
        actions.append(ChooseFile())
        imgui.close_current_popup()
    imgui.same_line()
    imgui.align_text_to_frame_padding()
    text(ui, "or drop one on the window", "muted", "small")
    return actions


def _draw_load(state: AppState, ui: Ui) -> list[Action]:
    assert state.load is not None
    text(ui, f"Loading {short_name(state.load.source)}", bold=True)
    progress(ui, state.load.stage.capitalize(), state.load.fraction)
    label = "Cancelling" if state.load.cancelling else "Cancel"
    clicked = button(ui, "models.cancel", label, enabled=not state.load.cancelling)
    return [CancelLoading()] if clicked else []


def _draw_model(state: AppState, ui: Ui) -> None:
    model = state.model
    assert model is not None
    text(ui, model.name, bold=True)
    rows = [
        ("Architecture", f"{model.architecture}, {model.layers} layers", ""),
        ("Parameters", quantity(model.parameters), "How many numbers were learnt in training."),
        ("Weights", size(model.weight_bytes), "What the weights take in memory."),
        (
            "Context",
            f"{model.context:,} of {model.trained_context:,} tokens",
            "How much text fits: what is available now, and what the model was trained for.",
        ),
        ("Chat template", "yes" if model.has_chat_template else "none", _TEMPLATE_HINT),
        ("Loaded in", duration(state.load_seconds * 1e3), ""),
    ]
    facts(ui, "model", rows)


_TEMPLATE_HINT = (
    "A chat template says how turns are marked for this model. Without one, the model only "
    "continues text."
)


def _draw_lists(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    current = state.model.path if state.model else None
    known = set()
    if state.catalogue:
        imgui.separator()
        text(ui, "Comes along", "muted", "small")
    for entry in state.catalogue:
        known.add(entry.source)
        note = f"{entry.description}  ·  {size(entry.bytes)}" if entry.bytes else entry.description
        if row_button(ui, f"models.{entry.source}", entry.title, note, enabled=entry.present):
            actions.append(OpenModel(entry.source))
    recent = [path for path in state.recent if path not in known]
    if recent:
        text(ui, "Opened before", "muted", "small")
    for number, path in enumerate(recent):
        chosen = path == current
        if row_button(ui, f"models.recent.{number}", short_name(path), path, chosen):
            actions.append(OpenModel(path))
    return actions
