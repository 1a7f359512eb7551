"""Continuations from any place of an answer, and the path through a message of the map."""

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
    show_tree,
)
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.tokens.state import tokens_until
from llm_lite.desktop.language.translate import tr


class ContinueFrom(Action, frozen=True):
    """Answer again: the first `count` tokens as they are, then `choice`, or what the model predicts
    if it is None."""

    index: int
    count: int
    choice: Alternative | None = None


class ContinueText(Action, frozen=True):
    """Answer again: the first `characters` as they are, of all that the answer's tokens spell."""

    index: int
    characters: int


class SpellAnswer(Action, frozen=True):
    """Request the texts of the tokens of an answer that was read from the history."""

    index: int


class ShowMessage(Action, frozen=True):
    """Show the path through a message, by its id."""

    id: int


class SwitchVersion(Action, frozen=True):
    index: int
    place: int


def _continue_from(action: ContinueFrom, state: AppState, now: float) -> Result:
    message = _answer(state, action.index)
    if message is None:
        return state, ()
    choice, kept = action.choice, message.tokens[: action.count]
    if not own_tokens(state, message):
        if message.restored:  # what they stand for is not known
            return state, ()
        text = "".join(token.text for token in kept) + (choice.text if choice else "")
        return _begin_with(state, action.index, _parts(message, text), now)
    known = tuple(replace(t, probability=message.likelihood(at)) for at, t in enumerate(kept))
    if choice is not None:
        known = (*known, Token(choice.token, choice.text, choice.probability))
    return _answer_again(state, action.index, now, forced=known)


def _continue_text(action: ContinueText, state: AppState, now: float) -> Result:
    """Continue by the answer's own tokens where they are known, as the cache has them then."""
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
    """Split `whole`, with which the answer begins, into thoughts and visible text."""
    thought = message.thought.text if message.thought else ""
    if not thought:
        return ChatMessage("assistant", whole)
    spelled, visible = message.whole, message.text
    start = spelled.rfind(visible) if visible else len(spelled)
    if start < 0 or len(whole) > start:
        return ChatMessage("assistant", whole[max(start, 0) :], (), thought)
    first = max(spelled.find(thought), 0)
    return ChatMessage("assistant", "", (), whole[first : first + len(thought)])


def _begin_with(state: AppState, index: int, begin: ChatMessage, now: float) -> Result:
    before = state.messages[index]
    written = before.written
    state, commands = _answer_again(state, index, now, begin=begin)
    if not commands:
        return state, commands
    if written is not None and state.model is not None and written.model.path != state.model.path:
        words = tr(
            "{writer} wrote the beginning. {reader} reads it as text, cut into tokens of its own."
        ).format(writer=written.model.name, reader=state.model.name)
        state = notify(state, "info", words, now)
    return state, commands


def _answer_again(
    state: AppState,
    index: int,
    now: float,
    *,
    forced: tuple[Token, ...] = (),
    begin: ChatMessage | None = None,
) -> Result:
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    return ask_again(state, index, now, forced=forced, begin=begin)


def switch_version(action: SwitchVersion, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    versions = state.tree.versions(action.index)
    if not 0 <= action.place < len(versions):
        return state, ()
    if state.running:
        return notify(state, "warning", obstacle(state), now), ()
    state, stop = end_reading(state)
    state = show_tree(state, state.tree.showing(versions[action.place]))
    return state, stop


def _spell(action: SpellAnswer, state: AppState, now: float) -> Result:
    message = _answer(state, action.index)
    if message is None or not message.restored or not own_tokens(state, message):
        return state, ()
    return state, (SpellTokens(tuple(token.id for token in message.tokens)),)


def _show_message(action: ShowMessage, state: AppState, now: float) -> Result:
    if state.tree.find(action.id) is None:
        return state, ()
    if action.id not in state.tree.aside:
        return state, ()
    if state.running:
        return notify(state, "warning", obstacle(state), now), ()
    state, stop = end_reading(state)
    state = show_tree(state, state.tree.showing(action.id))
    return state, stop


SURE = 40  # last characters, by which tokens are recognized as those of an answer


def spelled(message: Message, ids: tuple[int, ...], texts: tuple[str, ...]) -> Message:
    """Return the answer with whole tokens, or as it is where they spell something else, as tokens
    of another vocabulary do."""
    known = tuple(token.id for token in message.tokens[: len(ids)])
    if not texts or len(texts) != len(ids) or known != ids:
        return message
    raw = "".join(texts)
    thought = message.thought.text if message.thought else ""
    if thought not in raw or message.text.strip()[-SURE:] not in raw:
        return message
    odds = map(message.likelihood, range(len(ids)))
    tokens = tuple(map(Token, ids, texts, odds))
    later = message.tokens[len(ids) :]
    raw += "".join(token.text for token in later)
    fold = message.thought
    if fold is not None:
        fold = replace(fold, split=replace(fold.split, raw=raw))
    return replace(message, tokens=(*tokens, *later), restored=False, likelihoods=(), thought=fold)


def as_known(messages: tuple[Message, ...], shown: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return `messages`, which were read from the history, with all that is known of their shared
    beginning with the messages shown: texts of tokens and their alternatives. A fork begins so."""
    known: list[Message] = []
    for message, same in zip(messages, shown, strict=False):
        if _content(message) != _content(same):
            break
        known.append(
            replace(
                message,
                tokens=same.tokens,
                restored=same.restored,
                untokenized=same.untokenized,
                likelihoods=same.likelihoods,
                thought=same.thought,
            )
        )
    return (*known, *messages[len(known) :])


def _content(message: Message) -> tuple[object, ...]:
    thought = message.thought.text if message.thought else ""
    ids = [token.id for token in message.tokens if not message.untokenized]
    return message.role, message.text, thought, ids, message.attachments


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SwitchVersion: switch_version,
    ContinueFrom: _continue_from,
    ContinueText: _continue_text,
    SpellAnswer: _spell,
    ShowMessage: _show_message,
}
