"""The base of all actions."""

from __future__ import annotations

from msgspec import Struct


class Action(Struct, frozen=True):
    """What a person does, or what a host found: `act` carries it out by the function that a feature
    registers for its type."""
