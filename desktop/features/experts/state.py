"""The choices of experts that the window has read."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import ReadRouting, RoutingRead


class RoutingLook(Struct, frozen=True):
    """The choices that were read, and the last request of them."""

    key: tuple[object, ...] = ()  # what was asked last depends on this
    asked: ReadRouting | None = None  # and not answered yet
    read: RoutingRead | None = None
    read_of: tuple[object, ...] = ()  # the key of what was read
    problem: str = ""  # a sentence where nothing was
