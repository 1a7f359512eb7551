"""What an encoder answered, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import TextEncoded, TextsCompared
from llm_lite.core.records import replace
from llm_lite.core.text.tokenization.spelling import shown
from llm_lite.desktop.features.encoder.state import EncodingState
from llm_lite.desktop.features.program.state import AppState


def _text_encoded(event: TextEncoded, state: AppState, now: float) -> AppState:
    """Maps are of this text from now on; an answer to an older question is dropped."""
    held = state.encoding
    if not held.request or event.request != held.request:
        return state
    encoding = _readable(replace(held, request=0, answered=held.asked, encoded=event))
    state = replace(state, encoding=encoding)
    if event.problem:
        return state
    before = held.answered and held.answered.command
    same = before == (held.asked and held.asked.command)  # else the token that is held is gone
    return replace(
        state,
        positions=tuple(shown(token.text.strip(" ")) for token in event.tokens),
        attention=state.attention if same else replace(state.attention, row=None),
        xray=replace(state.xray, at=None),  # whoever points at a token asks where it looks now
        attention_rows=None,
        rows_request=0,
    )


def _readable(held: EncodingState) -> EncodingState:
    """With an example in English, where the vocabulary does not spell the one that was encoded."""
    if held.spelling == "words" or not held.choice.is_example:
        return held
    return replace(held, choice=replace(held.choice, english=True))


def _texts_compared(event: TextsCompared, state: AppState, now: float) -> AppState:
    held = state.encoding
    if not held.texts_request or event.request != held.texts_request:
        return state
    encoding = replace(held, texts_request=0, answered_texts=held.asked_texts, compared=event)
    return replace(state, encoding=encoding)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    TextEncoded: _text_encoded,
    TextsCompared: _texts_compared,
}
