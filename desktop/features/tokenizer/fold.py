"""What tokenizers answered, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import TextTokenized
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import AppState


def _text_tokenized(event: TextTokenized, state: AppState, now: float) -> AppState:
    """An answer to an older question than the last of its slot is dropped."""
    tokenizer = state.tokenizer
    for slot, answer in enumerate(tokenizer.answers):
        if answer.request != event.request:
            continue
        samples = event.samples or answer.samples
        told = replace(
            answer, request=0, result=event.result, samples=samples, message=event.message
        )
        answers = tokenizer.with_answer(slot, told)
        return replace(state, tokenizer=replace(tokenizer, answers=answers))
    return state


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    TextTokenized: _text_tokenized
}
