"""Which token the lesson follows, and which sentence it stands in: pure functions of the state."""

from __future__ import annotations

from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.desktop.state.lesson.lesson_state import TraceKey, sentence_of
from llm_lite.desktop.state.state import AppState


def followed(state: AppState) -> int | None:
    """The position that is followed; None while the cache is empty or another engine answers."""
    length = _length(state)
    if length == 0 or state.model is None or state.elsewhere:
        return None
    chosen = state.lesson.position
    return _default(state, length) if chosen is None else min(chosen, length - 1)


def _length(state: AppState) -> int:
    return min(state.context_used, len(state.positions), len(state.owners))


def _default(state: AppState, length: int) -> int:
    """The last word that a person said, or the last token where there is none. A question mark or
    a mark of the template says little."""
    said = [
        position
        for position in range(length)
        if 0 <= state.owners[position] < len(state.messages)
        and state.messages[state.owners[position]].role == "user"
        and any(letter.isalnum() for letter in state.positions[position])
    ]
    return said[-1] if said else length - 1


def first_of(state: AppState, position: int) -> int:
    """Where the message begins that the token at `position` stands in; an answer is shown behind
    the sentence that it goes on with where no template stands between them."""
    owners = state.owners
    if position >= len(owners):
        return 0
    first = position
    while first > 0 and owners[first - 1] == owners[position]:
        first -= 1
    if first > 0 and 0 <= owners[first - 1] < owners[position]:
        return first_of(state, first - 1)
    return first


def sentence(state: AppState, position: int) -> range:
    """The positions of the line that shows the sentence."""
    return sentence_of(position, first_of(state, position), _length(state))


def layer_of(state: AppState) -> int:
    """The layer that is opened: the one that a person chose, or one in the middle."""
    layers = state.model.layers if state.model else 1
    chosen = state.lesson.layer
    return layers // 2 if chosen is None else min(chosen, layers - 1)


def wanted_key(state: AppState) -> TraceKey | None:
    """What the trace that is wanted now belongs to; None: there is nothing to follow."""
    position = followed(state)
    if position is None or state.model is None:
        return None
    head = state.lesson.head
    return TraceKey(
        state.chat,
        _length(state) if not state.busy else 0,
        state.model.path,
        position,
        layer_of(state),
        ANY_HEAD if head is None else min(head, state.model.heads - 1),
        state.steering.gains,
    )
