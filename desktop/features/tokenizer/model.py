"""What a person does in the tokenizer view, as pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import TokenizeText
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.rounds import offered
from llm_lite.desktop.features.program.requests import Result, conversation
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.sampling.model import completes
from llm_lite.desktop.features.tokenizer.examples import LANGUAGES
from llm_lite.desktop.features.tokenizer.state import MODEL, TokenizerChoice


class ChooseTokenizing(Struct, frozen=True):
    """Show something else of the tokenizer, or of another text."""

    choice: TokenizerChoice


class AskTokenizer(Struct, frozen=True):
    """Have the text cut by the tokenizer of a slot; `key` is the view's. With `samples`, the
    sentences of all languages too."""

    slot: int
    key: tuple[object, ...]
    samples: bool = False


TokenizingAction = ChooseTokenizing | AskTokenizer


def choose(action: ChooseTokenizing, state: AppState, now: float) -> Result:
    return replace(state, tokenizer=replace(state.tokenizer, choice=action.choice)), ()


def ask(action: AskTokenizer, state: AppState, now: float) -> Result:
    """Of a conversation, the text is its next message."""
    choice, request = state.tokenizer.choice, state.next_step_request
    source = "" if action.slot == MODEL else choice.other
    samples = tuple(text for _, text in LANGUAGES) if action.samples else ()
    command = TokenizeText(
        request, choice.text, source, action.slot, control=choice.control, samples=samples
    )
    is_chat = choice.form == "chat" and not state.encodes
    if is_chat and action.slot == MODEL and not action.samples:
        said = (*state.messages, Message("text" if completes(state) else "user", choice.text))
        told, tools = conversation(state, said), offered(state)
        command = replace(command, messages=told, thinking=state.thinking, tools=tools)
    held = state.tokenizer.answers[action.slot]
    answers = state.tokenizer.with_answer(
        action.slot, replace(held, key=action.key, request=request)
    )
    tokenizer = replace(state.tokenizer, answers=answers)
    return replace(state, tokenizer=tokenizer, next_step_request=request + 1), (command,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ChooseTokenizing: choose,
    AskTokenizer: ask,
}
