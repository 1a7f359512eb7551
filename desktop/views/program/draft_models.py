"""Which smaller model drafts for the one in use, chosen in the menu of executors."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.core.messages import DraftModelInfo, EngineOptions
from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.library.showing import ListModels
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import size
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, wrapped

HINT = mark(
    "A smaller model with the same vocabulary. It drafts tokens where the text does not "
    "repeat itself, as long as that is faster; answers are the same."
)
NONE = mark("None: drafts come from repeats in the text only")


def draft_models(state: AppState) -> list[LocalModel]:
    """Those that may draft for the model in use: smaller, of as many tokens; a load compares the
    tokens themselves."""
    used = state.model
    if used is None or used.kind != "decoder":
        return []
    return [
        model
        for model in state.library.local or ()
        if model.vocabulary == used.vocabulary
        and 0 < model.parameters < used.parameters
        and model.runnable
        and not model.problem
    ]


def draw_draft_model(
    state: AppState, ui: Ui, options: EngineOptions
) -> tuple[EngineOptions, list[Action]]:
    """The options as they are chosen. Models here are looked for when the menu is first shown."""
    look: list[Action] = []
    library = state.library
    if library.local is None and not library.listing and not library.list_problem:
        look = [ListModels()]
    offered = [(str(model.path), model.name) for model in draft_models(state)]
    chosen = options.draft_model
    if chosen and chosen not in dict(offered):
        offered.append((chosen, _name(state, chosen)))
    if not offered:
        return options, look
    text(ui, tr("Draft model"), style="small")
    rows = [("", tr(NONE)), *offered]
    width = imgui.get_content_region_avail().x
    found = picker(ui, "executor.draft", rows, chosen, width, tr(HINT))
    draft = state.executor.draft if state.executor else None
    if draft is not None:
        wrapped(ui, _memory(draft), "muted")
    return replace(options, draft_model=found), look


def _name(state: AppState, path: str) -> str:
    draft = state.executor.draft if state.executor else None
    return draft.name if draft is not None else path


def _memory(draft: DraftModelInfo) -> str:
    return tr("{mode}: {weights} of weights and {cache} of cache").format(
        mode=draft.mode, weights=size(draft.weight_bytes), cache=size(draft.kv_bytes)
    )
