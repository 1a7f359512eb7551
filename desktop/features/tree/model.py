"""Another way on: from any place of an answer, from any message, along any branch of the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Alternative, ChatMessage, SpellTokens
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    end_reading,
    obstacle,
    own_tokens,
    switch,
)
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.tokens.state import tokens_until
from llm_lite.desktop.features.tree.branches import Way, way_to
from llm_lite.desktop.language.translate import tr


class ContinueFrom(Action, frozen=True):
    """Answer again: the first `count` tokens as they are, then `choice`; None: what the model
    says."""

    index: int
    count: int
    choice: Alternative | None = None


class ContinueText(Action, frozen=True):
    """Answer again: the first `characters` as they are, of all that the answer's tokens spell."""

    index: int
    characters: int


class SpellAnswer(Action, frozen=True):
    """Ask what the tokens stand for that an answer of the history is known by."""

    index: int


class ShowMessage(Action, frozen=True):
    """Show the path through a message, by its key."""

    key: int


def _continue_from(action: ContinueFrom, state: AppState, now: float) -> Result:
    message = _answer(state, action.index)
    if message is None:
        return state, ()
    choice, kept = action.choice, message.tokens[: action.count]
    if not own_tokens(state, message):
        if message.restored:  # what they stand for is not known
            return state, ()
        said = "".join(token.text for token in kept) + (choice.text if choice else "")
        return _begin_with(state, action.index, _parts(message, said), now)
    known = tuple(replace(t, probability=message.likelihood(at)) for at, t in enumerate(kept))
    if choice is not None:
        known = (*known, Token(choice.token, choice.text, choice.probability))
    return _ask(state, action.index, now, forced=known)


def _continue_text(action: ContinueText, state: AppState, now: float) -> Result:
    """By its own tokens where they are known: the cache has them then."""
    message = _answer(state, action.index)
    if message is None:
        return state, ()
    if own_tokens(state, message) and not message.restored:
        count = tokens_until(message.whole, message.pieces, action.characters)
        if count is not None:
            return _continue_from(ContinueFrom(action.index, count), state, now)
    parts = _parts(message, message.whole[: action.characters])
    return _begin_with(state, action.index, parts, now)


def _answer(state: AppState, index: int) -> Message | None:
    if not 0 <= index < len(state.messages):
        return None
    message = state.messages[index]
    return message if message.role == "assistant" else None


def _parts(message: Message, whole: str) -> ChatMessage:
    """What `whole`, with which the answer begins, is of thoughts and of what is said."""
    thought = message.thought.text if message.thought else ""
    if not thought:
        return ChatMessage("assistant", whole)
    spelled, said = message.whole, message.text
    start = spelled.rfind(said) if said else len(spelled)
    if start < 0 or len(whole) > start:
        return ChatMessage("assistant", whole[max(start, 0) :], (), thought)
    first = max(spelled.find(thought), 0)
    return ChatMessage("assistant", "", (), whole[first : first + len(thought)])


def _begin_with(state: AppState, index: int, begin: ChatMessage, now: float) -> Result:
    before = state.messages[index]
    written = before.written
    state, commands = _ask(state, index, now, begin=begin)
    if not commands and state.queued is None:
        return state, commands
    if written is not None and state.model is not None and written.model.path != state.model.path:
        words = tr(
            "{writer} wrote the beginning. {reader} reads it as text, cut into tokens of its own."
        ).format(writer=written.model.name, reader=state.model.name)
        state = notify(state, "info", words, now)
    return state, commands


def _ask(
    state: AppState,
    index: int,
    now: float,
    *,
    forced: tuple[Token, ...] = (),
    begin: ChatMessage | None = None,
) -> Result:
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    state, commands = ask_again(state, index, now, forced=forced, begin=begin)
    return replace(state, comparing=None), commands


def _spell(action: SpellAnswer, state: AppState, now: float) -> Result:
    message = _answer(state, action.index)
    if message is None or not message.restored or not own_tokens(state, message):
        return state, ()
    return state, (SpellTokens(message.key, tuple(token.id for token in message.tokens)),)


def _show_message(action: ShowMessage, state: AppState, now: float) -> Result:
    way = way_to(state.messages, action.key)
    if way is None:
        return state, ()
    if all(state.messages[index].place == place for index, place in way):
        return _reveal(state, action.key), ()
    if state.running:
        return notify(state, "warning", obstacle(state), now), ()
    state, stop = end_reading(state)
    return _reveal(replace(along(state, way), comparing=None), action.key), stop


def _reveal(state: AppState, key: int) -> AppState:
    return replace(state, history=replace(state.history, reveal=key))


def along(state: AppState, way: Way) -> AppState:
    """The state with the versions of a way: places by index, the first index first. Where there
    is no such version, what is shown stays."""
    for index, place in way:
        if index >= len(state.messages):
            break
        message = state.messages[index]
        if message.place != place and 0 <= place <= len(message.versions):
            state = switch(state, index, place)
    return state


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ContinueFrom: _continue_from,
    ContinueText: _continue_text,
    SpellAnswer: _spell,
    ShowMessage: _show_message,
}
