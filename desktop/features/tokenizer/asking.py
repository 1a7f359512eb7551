"""When a tokenizer is asked: once the typing rests, and never before the last answer is there."""

from __future__ import annotations

import math

from llm_lite.desktop.features.library.model import ListModels
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer.model import AskTokenizer
from llm_lite.desktop.features.tokenizer.state import MODEL, OTHER
from llm_lite.desktop.widgets.ui import Ui

REST = 0.06  # seconds without a key press


def questions(state: AppState, ui: Ui) -> list[Action]:
    choice = state.tokenizer.choice
    rests = ui.now - ui.memory.get("tokenizer.typed", -math.inf)
    if rests < REST:
        ui.redraw_in(REST - rests)
        return []
    compares = choice.stage == "compare"
    actions: list[Action] = []
    if compares and state.library.local is None and not state.library.listing:
        actions.append(ListModels())
    shown = slot_shown(state)
    for slot in (MODEL, OTHER):
        wanted = slot == shown or (compares and bool(choice.other))
        if not wanted or (slot == MODEL and not has_tokenizer(state)):
            continue
        answer, key = state.tokenizer.answers[slot], _key(state, slot, compares)
        if not answer.request and answer.key != key:
            actions.append(AskTokenizer(slot, key, samples=compares))
    return actions


def has_tokenizer(state: AppState) -> bool:
    """Whether the model in use has one here."""
    return state.model is not None and state.load is None and not state.elsewhere


def slot_shown(state: AppState) -> int:
    """Whose stages are shown: the other's where it was chosen, or where there is no model's."""
    choice = state.tokenizer.choice
    other = choice.other != "" and (choice.slot == OTHER or not has_tokenizer(state))
    return OTHER if other else MODEL


def _key(state: AppState, slot: int, compares: bool) -> tuple[object, ...]:
    """What an answer depends on."""
    choice = state.tokenizer.choice
    key: tuple[object, ...] = (choice.text, choice.control, compares)
    if slot == OTHER:
        return (*key, choice.other)
    model = state.model.path if state.model else ""
    if choice.form == "plain" or compares or state.encodes:
        return (*key, model)
    said = state.messages[-1].key if state.messages else 0
    ended = state.busy, len(state.messages), said
    return (*key, model, state.system_prompt, state.thinking, *ended)
