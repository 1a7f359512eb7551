"""Devices and models that the window offers, as they were found when it began."""

from __future__ import annotations

from msgspec import Struct


class DeviceChoice(Struct, frozen=True):
    """A Vulkan device of this machine, and why it cannot be used where it cannot."""

    index: int
    name: str
    kind: str
    usable: bool
    why_not: str = ""


class CatalogueEntry(Struct, frozen=True):
    """A model that can be opened by its name."""

    source: str  # what LoadModel takes
    path: str  # of its file; "" while it is not installed
    title: str
    description: str
    bytes: int = 0
    installing: bool = False  # pip brings it now
