"""The base of all actions."""

from __future__ import annotations

from msgspec import Struct


class Action(Struct, frozen=True):
    """One thing that a person did or a host found. `act` carries it out by the function that a
    feature registers for its type."""
