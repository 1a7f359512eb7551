"""The ends of commands that could not be carried out."""

from __future__ import annotations

from llm_lite.core.handles import Handle
from llm_lite.core.messages import (
    ConversationRead,
    Event,
    Generate,
    GenerationFinished,
    GenerationStats,
    Read,
    ServingChanged,
    StartServing,
    TargetFinished,
    Translate,
)


def fail(handle: Handle, problem: str) -> None:
    """End a command with a sentence."""
    event = _event_of(handle, problem)
    if event is not None:
        handle.emit(event)
    handle.end(problem)


def _event_of(handle: Handle, problem: str) -> Event | None:
    command = handle.command
    if isinstance(command, Generate):
        return GenerationFinished(command.request, "error", GenerationStats(), problem)
    if isinstance(command, Read):
        return ConversationRead(command.request, (), problem)
    if isinstance(command, Translate):
        return TargetFinished(command.request, stop_reason="error", problem=problem)
    if isinstance(command, StartServing):
        return ServingChanged(False, problem=problem)
    return None
