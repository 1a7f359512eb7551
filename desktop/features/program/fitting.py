"""The answer to the question whether a model may take more memory than there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Command, EngineOptions, LoadModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import reconfigure
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState, Load
from llm_lite.desktop.language.translate import tr


class AnswerMemory(Action, frozen=True):
    """`options`: what to load it with; None: not at all."""

    options: EngineOptions | None


def _answer_memory(action: AnswerMemory, state: AppState, now: float) -> Result:
    asked, state = state.memory_question, replace(state, memory_question=None)
    if asked is None or action.options is None:
        return state, ()
    if state.load:
        problem = tr("A model is already loading. Cancel it first.")
        return notify(state, "warning", problem, now), ()
    commands: tuple[Command, ...] = (LoadModel(asked.source, action.options),)
    if asked.in_use:
        state, commands = reconfigure(state, action.options)
    else:
        state = replace(state, load=Load(asked.source or tr("the default model")))
    # To load it all the same is said of this load only.
    return replace(state, options=replace(action.options, force=False)), commands


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {AnswerMemory: _answer_memory}
