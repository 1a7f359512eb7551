"""What a person does on the page of an encoder, as pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.encoding.mask_texts import with_word
from llm_lite.core.messages import Command, CompareTexts
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.state import (
    AskedText,
    AskedTexts,
    EncodingChoice,
    wanted_text,
    wanted_texts,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState

MOST_BEFORE = 20  # texts that can be gone back to


class ChooseEncoding(Action, frozen=True):
    """Another page, or other texts."""

    choice: EncodingChoice


class PutWord(Action, frozen=True):
    """A word in the place of the mask of that number, from 0 on."""

    number: int
    word: str


class TakeWordBack(Action, frozen=True):
    """The text as it was before the last word was put in."""


def encoder_of(state: AppState) -> EncoderInfo | None:
    """What the model in use can do, where it is an encoder of this machine."""
    return state.model.encoder if state.model is not None and not state.elsewhere else None


def choose(action: ChooseEncoding, state: AppState, now: float) -> Result:
    return _with_choice(state, action.choice), ()


def put_word(action: PutWord, state: AppState, now: float) -> Result:
    choice, encoder = state.encoding.choice, encoder_of(state)
    if encoder is None or not encoder.mask_token:
        return state, ()
    text = choice.shown_filled(encoder.mask_token)
    filled = with_word(text, encoder.mask_token, action.number, action.word)
    if filled == text:
        return state, ()
    before = (*choice.before, text)[-MOST_BEFORE:]
    return _with_choice(state, replace(choice, filled=filled, before=before, typing=False)), ()


def take_word_back(action: TakeWordBack, state: AppState, now: float) -> Result:
    choice = state.encoding.choice
    if not choice.before:
        return state, ()
    *before, text = choice.before
    return _with_choice(state, replace(choice, filled=text, before=tuple(before))), ()


def _with_choice(state: AppState, choice: EncodingChoice) -> AppState:
    return replace(state, encoding=replace(state.encoding, choice=choice))


def encode_due(state: AppState) -> Result:
    """Ask the encoder for what the page shows, where it has changed and nobody is typing."""
    encoder = encoder_of(state)
    if encoder is None or state.load is not None or state.encoding.choice.typing:
        return state, ()
    state, asked = _ask_text(state, encoder)
    state, compared = _ask_texts(state)
    return state, (*asked, *compared)


def _ask_text(state: AppState, encoder: EncoderInfo) -> Result:
    held, request = state.encoding, state.next_step_request
    command = wanted_text(held.choice, encoder)
    if command is None:
        return state, ()
    asked = AskedText(held.choice.mode, command, state.steering.gains)
    if asked == held.asked:
        return state, ()
    held = replace(held, asked=asked, request=request)
    commands: tuple[Command, ...] = (replace(command, request=request),)
    return replace(state, encoding=held, next_step_request=request + 1), commands


def _ask_texts(state: AppState) -> Result:
    held, request = state.encoding, state.next_step_request
    texts = wanted_texts(held.choice)
    asked = AskedTexts(texts, state.steering.gains)
    if not texts or asked == held.asked_texts:
        return state, ()
    held = replace(held, asked_texts=asked, texts_request=request)
    state = replace(state, encoding=held, next_step_request=request + 1)
    return state, (CompareTexts(request, texts),)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseEncoding: choose,
    PutWord: put_word,
    TakeWordBack: take_word_back,
}
