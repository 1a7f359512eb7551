"""The kinds of messages: commands go to the engine, events come from it."""

from __future__ import annotations

from msgspec import Struct


class Command(Struct, frozen=True):
    """A request to the engine, here or elsewhere."""


class StepRequest(Command, frozen=True):
    """A command that is served between two steps of an answer, too."""


class Task(Command, frozen=True):
    """Long work that is no answer; TaskProgress tells how far it is, and TaskFinished ends it."""

    request: int


class Event(Struct, frozen=True):
    """A report of what the engine did or found."""
