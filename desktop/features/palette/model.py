"""A person searches and chooses in the command palette; the history returns what it finds.

What is chosen there is an action like any other; here is only that it was, to list it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.history.state import LONGEST_QUERY, FoundRow
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class SearchPalette(Action, frozen=True):
    """Find conversations; the program asks the history, on a thread of its own."""

    query: str


class PaletteAnswered(Action, frozen=True):
    query: str
    found: tuple[FoundRow, ...]


class NoteChoice(Action, frozen=True):
    key: str


def _search(action: SearchPalette, state: AppState, now: float) -> Result:
    palette = replace(state.palette, query=action.query[:LONGEST_QUERY])
    if not action.query.strip():
        palette = replace(palette, found=(), found_for="")
    return replace(state, palette=palette), ()


def _answered(action: PaletteAnswered, state: AppState, now: float) -> Result:
    palette = replace(state.palette, found=action.found, found_for=action.query)
    if action.query != state.palette.query:  # a later question is on its way
        return state, ()
    return replace(state, palette=palette), ()


def _note(action: NoteChoice, state: AppState, now: float) -> Result:
    palette = replace(state.palette, recent=state.palette.chose(action.key))
    return replace(state, palette=palette), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SearchPalette: _search,
    PaletteAnswered: _answered,
    NoteChoice: _note,
}
