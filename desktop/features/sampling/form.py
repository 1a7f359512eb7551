"""Whether the conversation in front is a chat, or one text that the model continues."""

from __future__ import annotations

from llm_lite.desktop.features.program.state import AppState


def completes(state: AppState) -> bool:
    """Whether it is one text: as it has begun, or else as the person wants the next one, or else as
    the model is made for."""
    if state.messages:
        return any(message.role == "text" for message in state.messages)
    if state.form == "auto":
        return not has_template(state)
    return state.form == "completion"


def has_template(state: AppState) -> bool:
    """Whether the model in use was made for chats; while there is none, as if it was."""
    return state.model is None or state.model.has_chat_template
