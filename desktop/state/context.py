"""How much of the context the conversation in front takes, whatever the cache holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_lite.core.records import dataclass

if TYPE_CHECKING:
    from llm_lite.desktop.state.state import AppState


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of a conversation as the model in use is told it: its messages, and `beside` them the
    system prompt, the switch for thoughts and the functions that are offered."""

    messages: tuple[Any, ...] | None = None  # None: nothing was counted
    beside: tuple[object, ...] = ()
    tokens: int | None = None  # None: not counted yet, or it cannot be
    request: int = 0  # not answered yet; 0: none

    def is_of(self, messages: tuple[Any, ...], beside: tuple[object, ...]) -> bool:
        return self.messages is messages and self.beside == beside


def tokens_in_front(state: AppState) -> int | None:
    """Of the conversation in front; None where they are not counted yet."""
    running = state.running
    if running is not None and running.phase != "waiting":
        return max(running.prompt_tokens, state.context_used)
    if not state.messages:
        return 0
    return state.counted.tokens
