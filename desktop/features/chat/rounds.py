"""What the model is offered, and which calls of its last answer wait: read from the state."""

from __future__ import annotations

from llm_lite.core.messages import ToolCall, ToolSpec
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.sampling.model import completes
from llm_lite.desktop.features.tools.state import Approval, CallRound, approval_of, chosen

ROUNDS = 8  # of calls behind each other; then a person is asked


def offered(state: AppState) -> tuple[ToolSpec, ...]:
    """What the model is told of; nothing where its template knows no functions."""
    if not knows_tools(state) or completes(state):
        return ()
    return tuple(spec for _, spec in chosen(state.tools))


def knows_tools(state: AppState) -> bool:
    return state.model is not None and state.model.tool_style not in ("", "unknown")


def source_of(state: AppState, name: str) -> tuple[str, ToolSpec] | None:
    """Return where a function that is switched on comes from."""
    return next((found for found in chosen(state.tools) if found[1].name == name), None)


def waiting(state: AppState) -> Message | None:
    """Return the answer whose calls wait for results: the last one, once it has ended."""
    last = state.messages[-1] if state.messages else None
    if last is None or last.calls is None or not last.calls.calls or state.running:
        return None
    return None if last.stop_reason in (None, "error") else last


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    return message.calls.calls if message.calls else ()


def round_of(state: AppState, message: Message) -> CallRound:
    known = state.tools.round
    return known if known.key == message.key else CallRound(message.key)


def rounds(state: AppState) -> int:
    """Count answers with calls since the last question."""
    count = 0
    for message in reversed(state.messages):
        if message.role in ("user", "text"):
            break
        count += bool(calls_of(message))
    return count


def may_go_on(state: AppState) -> bool:
    """Tell whether the conversation goes on by itself once all calls are answered."""
    granted = state.tools.granted if state.tools.chat == state.chat else 0
    return rounds(state) < ROUNDS * (1 + granted)


def approval(state: AppState, call: ToolCall) -> Approval | None:
    """What a person approves who has such calls run without asking; None where no server could run
    them."""
    found = source_of(state, call.name)
    server = state.tools.server(found[0]) if found else None
    return approval_of(server.spec, found[1]) if found and server else None


def is_allowed(state: AppState, call: ToolCall) -> bool:
    tools = state.tools
    return tools.chat == state.chat and approval(state, call) in tools.allowed
