"""The details of a model on this machine: whether it fits, and what can be done with it."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.features.library import fit_bar, quantizing
from llm_lite.desktop.features.library.model import (
    ChooseLocal,
    RemoveModels,
    RevealModel,
    SliceModel,
    VerifyModel,
    WeighRemoval,
)
from llm_lite.desktop.features.library.state import fit_of_local, removal_choices
from llm_lite.desktop.features.library.words import (
    PLACES,
    UNKNOWN,
    bytes_of,
    context_in_full,
    described,
    parameters,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import sentence, size
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CLOSE,
    ICON_COPY,
    ICON_FOLDER_OPEN,
    ICON_LAYERS,
    ICON_TRASH,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    beside,
    button,
    facts,
    fit,
    icon_button,
    popover,
    primary_button,
    row_button,
    tip,
    wrapped,
)

PANEL = "library.remove"
WIDTH = 92.0  # spacing units
ABOUT = mark("It goes into the queue, and can be taken back until the queue is empty.")


SLICE_HINT = mark(
    "Make E2B of this E4B: fewer layers and narrower, in a folder of its own that refers to this "
    "model and takes next to nothing of the disk."
)
VERIFY_HINT = mark("Read every byte and compare it with what its file, or the hub, says it is.")
UNRUNNABLE = mark("This build does not know the architecture {name}: the model cannot be opened.")


def draw(state: AppState, ui: Ui) -> list[Action]:
    model = state.library.model(state.library.chosen)
    if model is None:
        return []
    actions = _draw_title(ui, model.name)
    _draw_problems(state, ui, model)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions += _draw_buttons(state, ui, model)
    _draw_checked(state, ui, model)
    imgui.dummy(ImVec2(0, ui.u(1)))
    if not model.problem and model.runnable:
        actions += fit_bar.draw_local_options(state, ui, model)
        question = fit_of_local(state.library, state.options, model.name)
        fit_bar.draw_answer(ui, state.library.fits.get(question))
        imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_facts(ui, model)
    return actions


def _draw_title(ui: Ui, name: str) -> list[Action]:
    side = ui.u(6)
    right = ui.right(side)
    with ui.font("bold", "title"):
        words = fit(name, imgui.get_content_region_avail().x - side - ui.u(2))
        imgui.text_unformatted(words)
        tip(ui, name if words != name else "")
    imgui.same_line(right)
    if icon_button(
        ui, "library.details.close", ICON_CLOSE, tr("Close the details"), side=side, style="small"
    ):
        return [ChooseLocal("")]
    return []


def _draw_problems(state: AppState, ui: Ui, model: LocalModel) -> None:
    if model.problem:
        wrapped(ui, f"{ICON_WARNING}  {sentence(model.problem)}", "error")
    elif not model.runnable:
        name = model.architecture or tr(UNKNOWN)
        wrapped(ui, f"{ICON_WARNING}  {tr(UNRUNNABLE).format(name=name)}", "warning")


def _draw_buttons(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    actions: list[Action] = []
    used = state.model is not None and state.model.path == str(model.path)
    whole = not model.problem and model.runnable
    label = tr("In use") if used else tr("Open")
    if primary_button(ui, "library.open", label, enabled=whole and not used and not state.load):
        actions.append(OpenModel(str(model.path)))
    if whole and model.form in ("gguf", "huggingface", "slice"):
        actions += quantizing.draw_local(state, ui, model)
    if whole and can_slice(model):
        words = tr("Slice to E2B")
        beside(ui, words)
        if button(ui, "library.slice", words, ICON_LAYERS, tr(SLICE_HINT)):
            actions.append(SliceModel(model.name))
    checking = state.library.checking
    words = tr("Verifying") if checking == model.name else tr("Verify")
    beside(ui, words)
    if button(ui, "library.verify", words, ICON_CHECK, tr(VERIFY_HINT), enabled=not checking):
        actions.append(VerifyModel(model.name))
    words = tr("Copy the path")
    beside(ui, words)
    if button(ui, "library.copy", words, ICON_COPY, shown_path(str(model.path))):
        imgui.set_clipboard_text(str(model.path))
    words = tr("Show in folder")
    beside(ui, words)
    if button(ui, "library.reveal", words, ICON_FOLDER_OPEN):
        actions.append(RevealModel(str(model.path)))
    return actions + draw_removal(state, ui, model)


def can_slice(model: LocalModel) -> bool:
    """Return whether this is Gemma 3n's E4B, which contains E2B."""
    known = model.architecture.casefold().replace("_", "").replace("-", "")
    named = f"{model.name} {model.repo}".casefold()
    return (
        "gemma3n" in known and "e4b" in named and model.form in ("gguf", "huggingface", "variant")
    )


def _draw_checked(state: AppState, ui: Ui, model: LocalModel) -> None:
    checked = state.library.checked.get(model.name)
    if checked is None:
        return
    icon, color = (ICON_CHECK, "good") if checked.good else (ICON_WARNING, "error")
    wrapped(ui, f"{icon}  {sentence(checked.words)}", color)


def _draw_facts(ui: Ui, model: LocalModel) -> None:
    rows = [
        (tr("Kind"), described(model), ""),
        (tr("Architecture"), model.architecture or tr(UNKNOWN), ""),
        (tr("Parameters"), parameters(model.parameters), tr("Number of weights.")),
        (tr("Size on disk"), bytes_of(model.size), tr("Of all its files, each counted once.")),
        (tr("Context"), context_in_full(model.context), tr("What it was trained for.")),
        (tr("Licence"), model.licence or tr(UNKNOWN), tr("As its files, or its page, say.")),
        (tr("Where"), tr(PLACES[model.origin]), ""),
    ]
    if model.made_of:
        rows.append((tr("Made from"), model.made_of, ""))
    if model.repo:
        rows.append((tr("On the hub"), model.repo, model.revision))
    facts(ui, "library.facts", rows)
    wrapped(ui, shown_path(str(model.path)), "faint")


def draw_removal(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    """Draw the button in a row of buttons, and its panel."""
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
