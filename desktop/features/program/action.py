"""The bases of all actions."""

from __future__ import annotations

from msgspec import Struct


class Action(Struct, frozen=True):
    """One thing that a person did or a host found. `act` carries it out by the function that a
    feature registers for its type."""


class HostAction(Action, frozen=True):
    """An action that a host, or the program, carries out alone: the state stays as it is until
    other actions follow from it."""
