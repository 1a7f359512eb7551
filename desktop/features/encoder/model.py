"""Actions on the page of an encoder, what events of it change, and its measures in the status
bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.encoding.mask_texts import with_word
from llm_lite.core.messages import (
    CompareTexts,
    EncodeText,
    Ended,
    Event,
    TextEncoded,
    TextsCompared,
)
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.records import replace
from llm_lite.core.text.token_spelling import shown
from llm_lite.desktop.features.encoder.state import (
    CompareRequest,
    EncodeRequest,
    EncodingChoice,
    EncodingState,
    wanted_text,
    wanted_texts,
)
from llm_lite.desktop.features.program import cached_text
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import milliseconds

MOST_BEFORE = 20  # texts that can be gone back to


class ChooseEncoding(Action, frozen=True):
    """Choose another page, or other texts."""

    choice: EncodingChoice


class PutWord(Action, frozen=True):
    """Put a word in the place of the mask of that number, from 0 on."""

    number: int
    word: str


class UndoWord(Action, frozen=True):
    """Restore the text as it was before the last word was put in."""


def encoder_of(state: AppState) -> EncoderInfo | None:
    """Return what the model in use can do, where it is an encoder of this machine."""
    return state.model.encoder if state.model is not None and not state.elsewhere else None


def choose(action: ChooseEncoding, state: AppState, now: float) -> Result:
    return with_choice(state, action.choice), ()


def put_word(action: PutWord, state: AppState, now: float) -> Result:
    choice, encoder = state.encoding.choice, encoder_of(state)
    if encoder is None or not encoder.mask_token:
        return state, ()
    text = choice.shown_filled(encoder.mask_token)
    filled = with_word(text, encoder.mask_token, action.number, action.word)
    if filled == text:
        return state, ()
    before = (*choice.before, text)[-MOST_BEFORE:]
    return with_choice(state, replace(choice, filled=filled, before=before, typing=False)), ()


def undo_word(action: UndoWord, state: AppState, now: float) -> Result:
    choice = state.encoding.choice
    if not choice.before:
        return state, ()
    *before, text = choice.before
    return with_choice(state, replace(choice, filled=text, before=tuple(before))), ()


def with_choice(state: AppState, choice: EncodingChoice) -> AppState:
    """Return the state with another page, or other texts on it."""
    return replace(state, encoding=replace(state.encoding, choice=choice))


def encode_due(state: AppState) -> Result:
    """Ask the encoder for what the page shows, where it has changed and nobody is typing."""
    encoder = encoder_of(state)
    if encoder is None or state.load is not None or state.encoding.choice.typing:
        return state, ()
    state, encoding = _request_encoding(state, encoder)
    state, comparison = _request_comparison(state)
    return state, (*encoding, *comparison)


def _request_encoding(state: AppState, encoder: EncoderInfo) -> Result:
    held, asked = state.encoding, wanted_text(state.encoding.choice, encoder)
    if asked is None:
        return state, ()
    wanted = EncodeRequest(held.choice.mode, asked, state.steering.gains, state.executor)
    if wanted == held.encode_request:
        return state, ()
    held = replace(held, encode_request=wanted, encoding=asked)
    return replace(state, encoding=held), (asked,)


def _request_comparison(state: AppState) -> Result:
    held = state.encoding
    texts = wanted_texts(held.choice)
    wanted = CompareRequest(texts, state.steering.gains, state.executor)
    if not texts or wanted == held.compare_request:
        return state, ()
    asked = CompareTexts(texts)
    held = replace(held, compare_request=wanted, comparing=asked)
    return replace(state, encoding=held), (asked,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseEncoding: choose,
    PutWord: put_word,
    UndoWord: undo_word,
}


def _encode_replied(event: Event, asked: EncodeText, state: AppState, now: float) -> AppState:
    """Show maps of this text from now on; an answer to an older question is dropped."""
    held = state.encoding
    if asked is not held.encoding:
        return state
    if isinstance(event, Ended):
        if event.failure:
            held = replace(held, encoded_request=held.encode_request, encoded=None)
            held = replace(held, encode_problem=event.failure)
        return replace(state, encoding=replace(held, encoding=None))
    if not isinstance(event, TextEncoded):
        return state
    encoding = replace(
        held,
        encoded_request=held.encode_request,
        encoded=event,
        encode_problem="",
        version=held.version + 1,
    )
    texts = tuple(shown(token.text.strip(" ")) for token in event.tokens)
    cached = cached_text.plain(state.cached, texts, (), len(texts))
    return replace(state, encoding=_readable(encoding), cached=cached)


def _readable(held: EncodingState) -> EncodingState:
    """Choose an example in English, where the vocabulary does not spell the one that was
    encoded."""
    if held.spelling == "words" or not held.choice.is_example:
        return held
    return replace(held, choice=replace(held.choice, english=True))


def _compare_replied(event: Event, asked: CompareTexts, state: AppState, now: float) -> AppState:
    held = state.encoding
    if asked is not held.comparing:
        return state
    if isinstance(event, TextsCompared):
        held = replace(held, compared_request=held.compare_request, compared=event)
    elif isinstance(event, Ended):
        if event.failure:
            held = replace(held, compared_request=held.compare_request, compared=None)
        held = replace(held, comparing=None, compare_problem=event.failure)
    return replace(state, encoding=held)


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    EncodeText: _encode_replied,
    CompareTexts: _compare_replied,
}


def encoder_measures(state: AppState) -> list[tuple[str, str, str]]:
    """Return name, shown text and what it means, from left to right."""
    answer, encoder = state.encoding.encoded, encoder_of(state)
    taken = milliseconds(answer.seconds) if answer else "–"
    most = encoder.most_tokens if encoder else 0
    count = len(answer.tokens) if answer else 0
    return [
        (
            "encoded",
            tr("Encoded in {time}").format(time=taken),
            tr("How long the last text took, from its characters to the vectors of its tokens."),
        ),
        ("context", f"{count:,} / {most:,}", tr("Tokens of the text, of those that are read.")),
    ]


def read_share(state: AppState) -> float:
    """Return the tokens of the text as a share of those that the model reads."""
    answer, encoder = state.encoding.encoded, encoder_of(state)
    return len(answer.tokens) / encoder.most_tokens if answer and encoder else 0.0
