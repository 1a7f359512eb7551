"""Actions of the tokenizer view, and the fold of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import TextTokenized, TokenizeText
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.reading import offered
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result, conversation
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.sampling.model import completes
from llm_lite.desktop.features.tokenizer.examples import LANGUAGES
from llm_lite.desktop.features.tokenizer.state import MODEL, TokenizerChoice


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
    choice, request = state.tokenizer.choice, state.next_step_request
    source = "" if action.slot == MODEL else choice.other
    samples = tuple(text for _, text in LANGUAGES) if action.samples else ()
    command = TokenizeText(
        request, choice.text, source, action.slot, control=choice.control, samples=samples
    )
    is_chat = choice.form == "chat" and not state.encodes
    if is_chat and action.slot == MODEL and not action.samples:
        messages = (*state.messages, Message("text" if completes(state) else "user", choice.text))
        prompt, tools = conversation(state, messages), offered(state)
        command = replace(command, messages=prompt, thinking=state.thinking, tools=tools)
    held = state.tokenizer.answers[action.slot]
    answers = state.tokenizer.with_answer(
        action.slot, replace(held, key=action.key, request=request)
    )
    tokenizer = replace(state.tokenizer, answers=answers)
    return replace(state, tokenizer=tokenizer, next_step_request=request + 1), (command,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseTokenizing: _choose,
    RequestTokens: _request,
}


def _text_tokenized(event: TextTokenized, state: AppState, now: float) -> AppState:
    """Keep the result of a slot's last request; drop those of earlier ones."""
    tokenizer = state.tokenizer
    for slot, answer in enumerate(tokenizer.answers):
        if answer.request != event.request:
            continue
        samples = event.samples or answer.samples
        answered = replace(
            answer, request=0, result=event.result, samples=samples, message=event.message
        )
        answers = tokenizer.with_answer(slot, answered)
        return replace(state, tokenizer=replace(tokenizer, answers=answers))
    return state


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    TextTokenized: _text_tokenized
}
