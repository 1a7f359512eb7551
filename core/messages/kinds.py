"""The kinds of messages: commands go to an engine, events come from it."""

from __future__ import annotations

from msgspec import Struct


class Command(Struct, frozen=True):
    """A request to an engine, here or elsewhere."""


class StepRequest(Command, frozen=True):
    """A command that is served between two steps of an answer, too."""


class Task(Command, frozen=True):
    """Long work that is no answer; CommandProgress tells how far it is."""


class Cancel(Command, frozen=True):
    """End a command that was given before: that very object. What it did until then stays."""

    command: Command


class Event(Struct, frozen=True):
    """A report of what an engine did or found."""


class CommandProgress(Event, frozen=True):
    """A report of how far a command is."""

    stage: str
    fraction: float  # 0..1


class Ended(Event, frozen=True):
    """The last event of a command.

    `problem`: why it was not carried out, a sentence. `unwanted`: somebody cancelled it, or a newer
    command took its place. `at_fault`: the command itself is the cause, and sending it again fails
    again, as one whose grammar costs more than it may. `of_tokens`: the tokens of the sequence
    that a question was answered about; None for what is no question, and where they are not known.
    """

    problem: str = ""
    unwanted: bool = False
    at_fault: bool = False
    of_tokens: tuple[int, ...] | None = None

    @property
    def failure(self) -> str:
        """Return why the command could not be carried out, or "" where it was, or was unwanted."""
        return "" if self.unwanted else self.problem
