"""Actions of the tokenizer view, and what it asks: the tokens of a text, by two tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Role, TextTokenized, TokenizeText
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.requests import Result, conversation
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokenizer.examples import LANGUAGES
from llm_lite.desktop.features.tokenizer.state import MODEL, OTHER, TokenizerChoice


class ChooseTokenizing(Action, frozen=True):
    """Change what the view shows, or its text."""

    choice: TokenizerChoice


def _choose(action: ChooseTokenizing, state: AppState, now: float) -> Result:
    return replace(state, tokenizer=action.choice), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {ChooseTokenizing: _choose}


def _messages_before(state: AppState) -> tuple[Message, ...]:
    """Return the messages before the next one, without an answer that is being written."""
    return state.messages[:-1] if state.answering is not None else state.messages


def _is_message(state: AppState) -> bool:
    """Return whether the text is taken as the next message of the conversation in front."""
    choice = state.tokenizer
    return choice.form == "chat" and choice.stage != "compare" and not state.encodes


def _conversation(state: AppState) -> object:
    """Return what the model's tokens are of beside the text; None where there is nothing."""
    return (_messages_before(state), state.prompt_settings) if _is_message(state) else None


def _with_samples(
    known: TextTokenized | None, found: TextTokenized, question: TokenizeText
) -> TextTokenized:
    """Return the answer with the counts of samples that are known, where it was not asked for
    them."""
    if question.samples or known is None:
        return found
    return replace(found, samples=known.samples)


# By number, MODEL and OTHER. An answer names the text that it is of.
TOKENS: tuple[Slot[TextTokenized], Slot[TextTokenized]] = (
    Slot("tokens-of-model", TokenizeText, TextTokenized, subject=_conversation,
         recorded=True, join=_with_samples),
    Slot("tokens-of-another", TokenizeText, TextTokenized,
         subject=lambda state: state.tokenizer.other, recorded=True, join=_with_samples),
)  # fmt: skip


def question(state: AppState, slot: int) -> TokenizeText:
    """Return the question to the tokenizer of a slot about what the view shows."""
    choice = state.tokenizer
    if slot == MODEL and _is_message(state):
        return _as_message(state)
    samples = tuple(text for _, text in LANGUAGES) if choice.stage == "compare" else ()
    source = choice.other if slot == OTHER else ""
    return TokenizeText(choice.text, source, slot, control=choice.control, samples=samples)


def _as_message(state: AppState) -> TokenizeText:
    """Return the question about the text as the next message; the same object as the last time
    where nothing has changed, as each frame asks for it."""
    global _last
    choice, before, settings = state.tokenizer, _messages_before(state), state.prompt_settings
    key = (choice.text, choice.control, before, settings, state.model, state.completes)
    if _last is None or _last[0] != key:
        role: Role = "text" if state.completes else "user"
        messages = conversation(state, (*before, Message(role, choice.text)))
        asked = TokenizeText(
            choice.text,
            messages=messages,
            thinking=settings.thinking,
            tools=settings.tools,
            control=choice.control,
            values=dict(settings.values),
        )
        _last = key, asked
    return _last[1]


_last: tuple[tuple[object, ...], TokenizeText] | None = None
