"""Actions on the page of an encoder, what events of it change, and its measures in the status
bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llm_lite.core.encoding.mask_texts import with_word
from llm_lite.core.messages import (
    Command,
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
    EncodingChoice,
    Spelling,
    spelled,
    wanted_text,
    wanted_texts,
)
from llm_lite.desktop.features.program import cached_text
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot, replied
from llm_lite.desktop.features.program.cached_text import CachedText
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
    """Return what the model in use can do, where it is an encoder."""
    return state.model.encoder if state.model is not None else None


def choose(action: ChooseEncoding, state: AppState, now: float) -> Result:
    return with_choice(state, action.choice), ()


def put_word(action: PutWord, state: AppState, now: float) -> Result:
    choice, encoder = state.encoding, encoder_of(state)
    if encoder is None or not encoder.mask_token:
        return state, ()
    text, known = choice.shown_filled(encoder.mask_token), ENCODED.answered(state)
    if known is None or known.question != EncodeText(text, fills=True):
        return state, ()  # the candidates are of the text before
    filled = with_word(text, encoder.mask_token, action.number, action.word)
    if filled == text:
        return state, ()
    before = (*choice.before, text)[-MOST_BEFORE:]
    return with_choice(state, replace(choice, filled=filled, before=before, typing=False)), ()


def undo_word(action: UndoWord, state: AppState, now: float) -> Result:
    choice = state.encoding
    if not choice.before:
        return state, ()
    *before, text = choice.before
    return with_choice(state, replace(choice, filled=text, before=tuple(before))), ()


def with_choice(state: AppState, choice: EncodingChoice) -> AppState:
    """Return the state with another page, or other texts on it."""
    return replace(state, encoding=choice)


# What is encoded for the page, and of pairs for two sentences; it is the text in the cache, too.
ENCODED: Slot[TextEncoded] = Slot(
    "encoded-text",
    EncodeText,
    TextEncoded,
    subject=lambda state: (state.encoding.mode, state.encoding.pair),
)
SIMILARITIES: Slot[TextsCompared] = Slot(
    "similarities", CompareTexts, TextsCompared, subject=lambda state: state.encoding.mode
)


def encode_due(state: AppState) -> Result:
    """Ask the encoder for what the page shows, where it has changed and nobody is typing."""
    encoder, choice = encoder_of(state), state.encoding
    if encoder is None or state.load is not None or choice.typing:
        return state, ()
    commands: tuple[Command, ...] = ()
    if (text := wanted_text(choice, encoder)) is not None:
        state, commands = ENCODED.due(state, text)
    if texts := wanted_texts(choice):
        state, more = SIMILARITIES.due(state, CompareTexts(texts))
        commands = (*commands, *more)
    return state, commands


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseEncoding: choose,
    PutWord: put_word,
    UndoWord: undo_word,
}


def _encode_replied(event: Event, asked: EncodeText, state: AppState, now: float) -> AppState:
    """Keep the answer; from now on maps are of this text. Where it could not be encoded, there are
    none."""
    if not ENCODED.waits_for(state, asked):  # another one was asked since
        return state
    state = replied(event, asked, state, now)
    if not isinstance(event, Ended) or event.unwanted:
        return state
    answer = ENCODED.answer(state)
    if answer is None:
        return replace(state, cached=CachedText(computed=state.cached.computed))
    texts = tuple(shown(token.text.strip(" ")) for token in answer.tokens)
    cached = cached_text.plain(state.cached, texts, (), len(texts))
    cached = replace(cached, ids=tuple(token.token for token in answer.tokens))
    return _readable(replace(state, cached=cached))


def _readable(state: AppState) -> AppState:
    """Choose an example in English, where the vocabulary does not spell the one that was
    encoded."""
    if spelling(state) == "words" or not state.encoding.is_example:
        return state
    return with_choice(state, replace(state.encoding, english=True))


def spelling(state: AppState) -> Spelling:
    """Return how well the model's vocabulary spells what was encoded for the page."""
    known = ENCODED.answered(state)
    if known is None or known.answer is None:
        return "words"
    return spelled(cast(EncodeText, known.question), known.answer)


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    EncodeText: _encode_replied,
}


def encoder_measures(state: AppState) -> list[tuple[str, str, str]]:
    """Return name, shown text and what it means, from left to right."""
    answer, encoder = ENCODED.answer(state), encoder_of(state)
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
    answer, encoder = ENCODED.answer(state), encoder_of(state)
    return len(answer.tokens) / encoder.most_tokens if answer and encoder else 0.0
