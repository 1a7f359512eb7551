"""The choice of what the conversation shows of its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import (
    Result,
)
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import XRay

KEPT = ("by", "reverse", "probabilities", "drafts")  # fields of `Looks`


class SetXRay(Action, frozen=True):
    """Choose what the text shows, and which token the pointer is at."""

    xray: XRay


def set_xray(action: SetXRay, state: AppState, now: float) -> Result:
    shown = action.xray.shown or state.encodes
    return replace(state, xray=action.xray if shown else replace(action.xray, at=None)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {SetXRay: set_xray}


def restore(settings: Settings, state: AppState) -> AppState:
    kept = {name: getattr(settings.looks, name) for name in KEPT}
    return replace(state, xray=replace(state.xray, **kept))
