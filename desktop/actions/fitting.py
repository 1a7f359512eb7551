"""What a person answers when a model would take more memory than there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llm_lite.core.messages import EngineOptions, LoadModel, Reconfigure
from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.requests import Result
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.notices import notify
from llm_lite.desktop.state.state import AppState, Load


@dataclass(frozen=True, slots=True)
class AnswerMemory:
    """`options`: what to load it with; None: not at all."""

    options: EngineOptions | None


FitAction = AnswerMemory


def _answer_memory(action: AnswerMemory, state: AppState, now: float) -> Result:
    asked, state = state.memory_question, replace(state, memory_question=None)
    if asked is None or action.options is None:
        return state, ()
    if state.load:
        problem = tr("A model is already loading. Cancel it first.")
        return notify(state, "warning", problem, now), ()
    if asked.in_use:
        command: LoadModel | Reconfigure = Reconfigure(action.options)
        source = state.model.path if state.model else None
    else:
        command, source = LoadModel(asked.source, action.options), asked.source
    # To load it all the same is said of this load only.
    state = replace(state, options=replace(action.options, force=False))
    return replace(state, load=Load(source or tr("the default model"))), (command,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {AnswerMemory: _answer_memory}
