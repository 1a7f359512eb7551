"""The model in use counts the tokens of the conversation in front where no answer gave them."""

from __future__ import annotations

from llm_lite.core.messages import CountTokens
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.reading import is_sentence_only, offered, template_values
from llm_lite.desktop.features.program.requests import Result, beside_messages, conversation
from llm_lite.desktop.features.program.state import AppState, Counted


def count_due(state: AppState) -> Result:
    """Ask for what is in front once it is another conversation than was counted."""
    if not state.messages or state.model is None or not state.holds_conversations:
        return state, ()
    if state.load or state.running or state.counted.asked:
        return state, ()
    beside = beside_messages(state)
    if state.counted.is_of(state.messages, beside):
        return state, ()
    messages = conversation(state, state.messages)
    asked = CountTokens(
        messages=messages,
        thinking=state.thinking,
        tools=offered(state),
        raw=is_sentence_only(state),
        values=template_values(state),
    )
    return replace(state, counted=Counted(state.messages, beside, asked=asked)), (asked,)
