"""The record of what drafts learned, and actions that delete it: alone, or with the trash of
conversations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import DraftsLearned, ForgetLearnedDrafts, GenerationStats
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.model import EmptyTrash
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import (
    AppState,
)
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration

SOURCES = {
    "lookup": mark("the text"),
    "ngrams": mark("earlier answers"),
    "model": mark("the draft model"),
    "slice": mark("a slice of the model"),
    "block": mark("the model's own block"),
}


class ForgetLearned(Action, frozen=True):
    """Delete what drafts learned from answers, of all models."""


def _forget(action: ForgetLearned | EmptyTrash, state: AppState, now: float) -> Result:
    # It is not recorded from which conversation something was learned, so all of it goes.
    return state, (ForgetLearnedDrafts(),)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ForgetLearned: _forget,
    EmptyTrash: _forget,
}


def _learned(event: DraftsLearned, state: AppState, now: float) -> AppState:
    return replace(state, learned_drafts=event)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {DraftsLearned: _learned}


def gain(stats: GenerationStats) -> str:
    """Return the time that drafts saved, or lost, in words."""
    if stats.saved_ms < 0:
        return tr("{time} lost").format(time=duration(-stats.saved_ms))
    return tr("{time} saved").format(time=duration(stats.saved_ms))


def by_source(stats: GenerationStats) -> str:
    """Name each source of drafts, how many tokens it drafted, and how many were accepted."""
    parts = [
        tr("{n} of {whole} by {source}").format(
            n=one.accepted, whole=one.drafted, source=tr(SOURCES.get(one.source, one.source))
        )
        for one in stats.drafted_by
    ]
    return ", ".join(parts)
