"""The pure `apply`: an event of the engine folded into the state."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from llm_lite.core.messages import Event, TokenDecoded
from llm_lite.desktop.features.chat.model import decoded
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import FEATURES, joined
from llm_lite.desktop.language.incoming import fit_to_show

EVENTS = joined(feature.events for feature in FEATURES)


def apply(event: Event, state: AppState, now: float) -> AppState:
    """Return the state after `event`, which came at `now`, in seconds. An event of a request that
    was dropped changes nothing. Raises TypeError for what is no event."""
    if type(event) not in EVENTS:
        raise TypeError(f"not an event: {event!r}")
    return EVENTS[type(event)](fit_to_show(event), state, now)


def fold(events: Iterable[Event], state: AppState, now: float) -> AppState:
    """Return the state after `events`, which came together at `now`. Tokens of an answer that
    follow each other become part of it at once: each alone would copy all that was said before."""
    for request, together in groupby(events, _request):
        if request is None:
            for event in together:
                state = apply(event, state, now)
        else:
            tokens = [fit_to_show(e) for e in together if isinstance(e, TokenDecoded)]
            state = decoded(tokens, state, now)
    return state


def _request(event: Event) -> int | None:
    return event.request if isinstance(event, TokenDecoded) else None
