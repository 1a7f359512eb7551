"""The model in use counts the tokens of the conversation in front where no answer gave them."""

from __future__ import annotations

from llm_lite.core.messages import CountTokens
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.requests import Result, conversation
from llm_lite.desktop.features.program.state import AppState, Counted


def count_due(state: AppState) -> Result:
    """Ask for what is in front once it is another conversation than was counted."""
    if not state.messages or state.model is None or not state.holds_conversations:
        return state, ()
    if state.load or state.running or state.count.asked or state.counted.messages is not None:
        return state, ()
    settings = state.prompt_settings
    asked = CountTokens(messages=conversation(state, state.messages), **settings.options)
    return replace(state, count=Counted(state.messages, settings, asked=asked)), (asked,)
