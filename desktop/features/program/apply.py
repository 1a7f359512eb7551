"""The pure `apply`: an event of the engine folded into the state."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby

from llm_lite.core.handles import Report
from llm_lite.core.messages import Command, Ended, Event, TokenDecoded
from llm_lite.desktop.features.chat.model import decoded
from llm_lite.desktop.features.program.asking import replied
from llm_lite.desktop.features.program.notices import add_log
from llm_lite.desktop.features.program.state import AppState, LogLine
from llm_lite.desktop.features.registry import FEATURES, joined
from llm_lite.desktop.language.incoming import fit_to_show

EVENTS = joined(feature.events for feature in FEATURES)
REPLIES = joined(feature.replies for feature in FEATURES)
QUESTIONS = tuple({slot.question for feature in FEATURES for slot in feature.asks})


def apply(event: Event, state: AppState, now: float, command: Command | None = None) -> AppState:
    """Return the state after an event of a command, or of the engine itself, which came at `now`,
    in seconds: what the feature that gives such commands makes of it, else what features make of
    events of its kind. Raises TypeError for what is no event."""
    event = fit_to_show(event)
    if type(command) in REPLIES:
        return REPLIES[type(command)](event, command, state, now)
    if isinstance(command, QUESTIONS):
        return replied(event, command, state, now)
    if isinstance(event, Ended):
        if not event.failure:
            return state
        return add_log(state, LogLine("warning", event.failure, time.time()))
    if type(event) not in EVENTS:
        raise TypeError(f"not an event: {event!r}")
    return EVENTS[type(event)](event, state, now)


def fold(reports: Iterable[Report], state: AppState, now: float) -> AppState:
    """Return the state after `reports`, which came together at `now`. Tokens of an answer that
    follow each other become part of it at once: each alone would copy all that was said before."""
    for _, group in groupby(reports, lambda one: (type(one.event), id(one.command))):
        together = list(group)
        tokens = [one.event for one in together if isinstance(one.event, TokenDecoded)]
        if tokens:
            state = decoded([*map(fit_to_show, tokens)], together[0].command, state, now)
        else:
            for report in together:
                state = apply(report.event, state, now, report.command)
    return state
