"""Actions of the tokenizer view, and the fold of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Ended, Event, TextTokenized, TokenizeText
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result, conversation
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokenizer.examples import LANGUAGES
from llm_lite.desktop.features.tokenizer.state import MODEL, Answer, TokenizerChoice


class ChooseTokenizing(Action, frozen=True):
    """Change what the view shows, or its text."""

    choice: TokenizerChoice


class RequestTokens(Action, frozen=True):
    """Tokenize the text by the tokenizer of a slot, and with `samples` sentences of each language.
    The view identifies the request by `key`."""

    slot: int
    key: tuple[object, ...]
    samples: bool = False


def _choose(action: ChooseTokenizing, state: AppState, now: float) -> Result:
    return replace(state, tokenizer=replace(state.tokenizer, choice=action.choice)), ()


def _request(action: RequestTokens, state: AppState, now: float) -> Result:
    # In a conversation the text is its next message.
    choice = state.tokenizer.choice
    source = "" if action.slot == MODEL else choice.other
    samples = tuple(text for _, text in LANGUAGES) if action.samples else ()
    asked = TokenizeText(choice.text, source, action.slot, control=choice.control, samples=samples)
    is_chat = choice.form == "chat" and not state.encodes
    if is_chat and action.slot == MODEL and not action.samples:
        messages = (*state.messages, Message("text" if state.completes else "user", choice.text))
        settings = {
            name: value for name, value in state.prompt_settings.options.items() if name != "raw"
        }
        asked = replace(asked, messages=conversation(state, messages), **settings)
    held = state.tokenizer.answers[action.slot]
    return _with_answer(state, action.slot, replace(held, key=action.key, asked=asked)), (asked,)


def _with_answer(state: AppState, slot: int, answer: Answer) -> AppState:
    answers = state.tokenizer.with_answer(slot, answer)
    return replace(state, tokenizer=replace(state.tokenizer, answers=answers))


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseTokenizing: _choose,
    RequestTokens: _request,
}


def _replied(event: Event, asked: TokenizeText, state: AppState, now: float) -> AppState:
    """Keep the result of a slot's last request; drop those of earlier ones."""
    answer = state.tokenizer.answers[asked.slot]
    if asked is not answer.asked:
        return state
    if isinstance(event, TextTokenized):
        samples = event.samples or answer.samples
        answer = replace(answer, result=event.result, samples=samples, problem="")
    elif isinstance(event, Ended):
        if event.failure:
            answer = replace(answer, result=None, problem=event.failure)
        answer = replace(answer, asked=None)
    return _with_answer(state, asked.slot, answer)


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    TokenizeText: _replied,
}
