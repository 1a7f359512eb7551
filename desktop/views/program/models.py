"""The models: the loaded one, bundled ones, recent ones, and any other file."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import CancelLoading, ChooseFile, OpenModel
from llm_lite.desktop.commands.hints import with_keys
from llm_lite.desktop.state.incoming import shown_path
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import duration, quantity, short_name, size
from llm_lite.desktop.widgets.icons import ICON_FOLDER_OPEN, ICON_MEMORY
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, facts, progress, row_button, text, wrapped


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    if state.load:
        actions += _draw_load(state, ui)
    elif state.model:
        _draw_model(state, ui)
    else:
        wrapped(ui, "No model is loaded.")
    if state.model and button(ui, "models.memory", "Context and precision", ICON_MEMORY):
        ui.opened = "memory"
        imgui.close_current_popup()
    actions += _draw_lists(state, ui)
    imgui.separator()
    if button(
        ui,
        "models.open",
        "Open a file",
        ICON_FOLDER_OPEN,
        with_keys("Open a GGUF file", "open_file"),
    ):
        actions.append(ChooseFile())
        imgui.close_current_popup()
    imgui.same_line()
    imgui.align_text_to_frame_padding()
    text(ui, "or drop one on the window, or type its path:", "muted", "small")
    return actions + _draw_path(ui)


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
        (
            "Its memory",
            f"{size(model.kv_bytes)}, keys {model.cache.keys}, values {model.cache.values}",
            "What keys and values of the whole context take. Change it under Memory.",
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
    if state.catalogue:
        imgui.separator()
        text(ui, "Bundled", "muted", "small")
    for entry in state.catalogue:
        chosen, there = entry.path == current, bool(entry.path)
        note = f"{entry.description}  ·  {size(entry.bytes)}" if there else "not installed"
        if row_button(ui, f"models.{entry.source}", entry.title, note, chosen, there):
            actions.append(OpenModel(entry.source))
        if not there:
            wrapped(ui, entry.description)
    along = {entry.path for entry in state.catalogue}
    recent = [path for path in state.recent if path not in along]
    if recent:
        text(ui, "Recent", "muted", "small")
    for number, path in enumerate(recent):
        chosen = path == current
        if row_button(ui, f"models.recent.{number}", short_name(path), shown_path(path), chosen):
            actions.append(OpenModel(path))
    return actions


def _draw_path(ui: Ui) -> list[Action]:
    """A path can be typed where there is no file dialog, or no wish for one."""
    imgui.set_next_item_width(-1)
    flags = imgui.InputTextFlags_.enter_returns_true
    typed, path = imgui.input_text_with_hint(
        "##path", "Path of a GGUF file or a directory", ui.memory.get("models.path", ""), flags
    )
    ui.mark("models.path")
    ui.memory["models.path"] = path
    if not typed or not path.strip():
        return []
    ui.memory["models.path"] = ""
    return [OpenModel(path.strip())]
