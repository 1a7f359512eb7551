"""What drafts learned from answers is deleted: alone, and with conversations that go for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ForgetLearnedDrafts
from llm_lite.desktop.features.history.model import EmptyTrash
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class ForgetLearned(Action, frozen=True):
    """Of all models."""


def _forget(action: ForgetLearned | EmptyTrash, state: AppState, now: float) -> Result:
    """Nobody can tell which conversation taught what. Conversations themselves are the keeper's."""
    return state, (ForgetLearnedDrafts(),)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ForgetLearned: _forget,
    EmptyTrash: _forget,
}
