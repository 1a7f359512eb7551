"""Tokens of the conversation in front, as they were counted."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Counted(Struct, frozen=True):
    """Tokens of a conversation as the model in use is told it: its messages, and `beside` them the
    system prompt, the switch for thoughts and the functions that are offered."""

    messages: tuple[Any, ...] | None = None  # None: nothing was counted
    beside: tuple[object, ...] = ()
    tokens: int | None = None  # None: not counted yet, or it cannot be
    request: int = 0  # not answered yet; 0: none

    def is_of(self, messages: tuple[Any, ...], beside: tuple[object, ...]) -> bool:
        return self.messages is messages and self.beside == beside
