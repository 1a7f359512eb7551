"""Which token the lesson follows, and which sentence it stands in: pure functions of the state."""

from __future__ import annotations

from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.desktop.features.lesson.state import TraceKey, sentence_of
from llm_lite.desktop.features.program.state import AppState

_MANY = 1 << 32  # more than there are requests
PIECE = "\ufffd"  # what a part of a letter is written as


def followed(state: AppState) -> int | None:
    """The position that is followed; None while the cache is empty or another engine answers."""
    length = length_of(state)
    if length == 0 or state.model is None or state.elsewhere:
        return None
    chosen = state.lesson.position
    return _default(state, length) if chosen is None else min(chosen, length - 1)


def is_sentence_only(state: AppState) -> bool:
    """Whether the chat holds the lesson's sentence and how the model went on, and nothing that a
    person said beside it: the history does not keep that."""
    return state.lesson.made == state.chat and len(state.messages) <= 2


def length_of(state: AppState) -> int:
    """How many tokens can be followed: of the conversation, of an encoder's text, or of a target,
    once it is whole."""
    if state.encodes:
        encoded = state.encoding.encoded
        is_there = encoded is not None and not encoded.problem and not state.encoding.request
        return len(state.positions) if is_there else 0
    if state.writes_targets and (state.busy or state.translating.result is None):
        return 0
    return min(state.context_used, len(state.positions), len(state.owners))


def _default(state: AppState, length: int) -> int:
    """The last word that a person said, or the last token where there is none. A question mark or
    a mark of the template says little. Of an encoder's text the masked token, where there is one,
    and of a target its last word.
    """
    if state.encodes:
        return _of_text(state, length)
    if state.writes_targets:
        words = [place for place in range(1, length) if _is_word(state.positions[place])]
        return words[-1] if words else length - 1
    said = [
        position
        for position in range(length)
        if 0 <= state.owners[position] < len(state.messages)
        and state.messages[state.owners[position]].role in ("user", "text")
        and _is_word(state.positions[position])
    ]
    return said[-1] if said else length - 1


def _is_word(text: str) -> bool:
    """Or a part of one."""
    return any(letter.isalnum() or letter == PIECE for letter in text)


def _of_text(state: AppState, length: int) -> int:
    encoded = state.encoding.encoded
    assert encoded is not None
    if encoded.masks:
        return encoded.masks[0].position
    words = [
        place
        for place, token in enumerate(encoded.tokens)
        if not token.special and any(letter.isalnum() for letter in token.text)
    ]
    return words[-1] if words else length - 1


def first_of(state: AppState, position: int) -> int:
    """Where the message begins that the token at `position` stands in; an answer is shown behind
    the sentence that it goes on with where no template stands between them."""
    owners = () if state.encodes else state.owners
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
    return sentence_of(position, first_of(state, position), length_of(state))


def text_up_to(state: AppState, position: int) -> str:
    """The text of the sentence, from where its message begins to the token at `position`; "" where
    it is not known, as tokens are parts of letters."""
    places = range(first_of(state, position), position + 1)
    words = "".join(state.positions[place] for place in places if state.owners[place] >= 0)
    return "" if PIECE in words else words


def by_model(state: AppState, position: int) -> bool:
    """Whether the model wrote the token there; of a target all but the one that it starts with."""
    if state.writes_targets:
        return 0 < position < len(state.positions)
    owner = state.owners[position] if position < len(state.owners) else -1
    return 0 <= owner < len(state.messages) and state.messages[owner].role == "assistant"


def layer_of(state: AppState) -> int:
    """The layer that is opened: the one that a person chose, or one in the middle."""
    layers = state.model.layers if state.model else 1
    chosen = state.lesson.layer
    return layers // 2 if chosen is None else min(chosen, layers - 1)


def _version(state: AppState) -> int:
    """Of the text: another number, another trace."""
    encoded = state.encoding.encoded
    if state.encodes:
        return encoded.request if encoded is not None else 0
    if state.writes_targets:
        result, chosen = state.translating.result, state.translating.choices
        return result.request + chosen * _MANY if result is not None else 0
    return length_of(state) if not state.busy else 0


def wanted_key(state: AppState) -> TraceKey | None:
    """What the trace that is wanted now belongs to; None: there is nothing to follow."""
    position = followed(state)
    if position is None or state.model is None:
        return None
    head = state.lesson.head
    return TraceKey(
        state.chat,
        _version(state),
        state.model.path,
        position,
        layer_of(state),
        ANY_HEAD if head is None else min(head, state.model.heads - 1),
        state.steering.gains,
        state.lesson.beside,
    )
