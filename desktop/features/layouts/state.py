"""The layouts of the window (to read, to inspect, to compare) and the side panels of each.

Widths are in text sizes, so that they hold on a denser screen; 0 is the default.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from llm_lite.core.records import replace

LayoutName = Literal["read", "inspect", "compare"]
Panel = Literal["auto", "shown", "hidden"]  # a side panel; auto: where the window has room for it
LAYOUTS: tuple[LayoutName, ...] = ("read", "inspect", "compare")
ROOM: dict[LayoutName, float] = {"read": 56.0, "inspect": 72.0, "compare": 150.0}  # for the list
# In text sizes. The inspector gives way to the conversation first, then the list does.
LEAST_INSPECTOR, LEAST_LIST = 15.0, 12.0
TIGHT_CHAT = 20.0  # what a window must have left for the conversation beside a panel
RAIL = 4.0

_Width = Annotated[float, Meta(ge=0, le=1000)]  # logical pixels


class Sizes(Struct, frozen=True):
    """The widths and heights of the side panels of one layout."""

    list_width: float = 0.0
    inspector_width: float = 0.0
    upper_share: float = 0.0  # of the inspector's height
    runs_width: float = 0.0


class Sides(Struct, frozen=True):
    """The side panels of one layout: whether they are shown, and their sizes."""

    list: Panel = "auto"
    inspector: Panel = "auto"
    sizes: Sizes = field(default_factory=Sizes)


def _panel(shown: bool) -> Panel:
    return "shown" if shown else "hidden"


class Layouts(Struct, frozen=True):
    name: LayoutName = "inspect"
    before: LayoutName = "inspect"  # the one to go back to from a comparison
    read: Sides = field(default_factory=Sides)
    inspect: Sides = field(default_factory=Sides)
    compare: Sides = field(default_factory=Sides)

    @property
    def sides(self) -> Sides:
        """Return the side panels of the layout in use."""
        return self.of(self.name)

    def of(self, name: LayoutName) -> Sides:
        return {"read": self.read, "inspect": self.inspect, "compare": self.compare}[name]

    def with_sides(self, name: LayoutName, sides: Sides) -> Layouts:
        match name:
            case "read":
                return replace(self, read=sides)
            case "inspect":
                return replace(self, inspect=sides)
            case "compare":
                return replace(self, compare=sides)

    def with_list(self, shown: bool) -> Layouts:
        """Show or hide the list of conversations in the layout in use."""
        return self.with_sides(self.name, replace(self.sides, list=_panel(shown)))

    def with_inspector(self, shown: bool) -> Layouts:
        return self.with_sides(self.name, replace(self.sides, inspector=_panel(shown)))

    def to(self, name: LayoutName) -> Layouts:
        if name == self.name:
            return self
        before = self.before if self.name == "compare" else self.name
        return replace(self, name=name, before=before)

    def shows_list(self, width: float) -> bool:
        """Return whether the conversations are listed in a window of this width in text sizes."""
        panel = self.sides.list
        wanted = panel == "shown" or (panel == "auto" and width >= ROOM[self.name])
        return wanted and width >= RAIL + TIGHT_CHAT + LEAST_LIST

    def shows_inspector(self, width: float) -> bool:
        """Return whether the views of the model are shown in a window of this width in text
        sizes."""
        beside = LEAST_LIST if self.shows_list(width) else 0.0
        fits = width >= RAIL + TIGHT_CHAT + LEAST_INSPECTOR + beside
        return self.wants_inspector and fits

    @property
    def wants_inspector(self) -> bool:
        """Return whether the views of the model are shown where the window has room for them."""
        panel = self.sides.inspector
        return panel == "shown" or (panel == "auto" and self.name == "inspect")


class KeptSides(Struct, frozen=True):
    """The side panels of a layout as the settings keep them: plain values."""

    list: Panel = "auto"
    inspector: Panel = "auto"
    list_width: _Width = 0.0
    inspector_width: _Width = 0.0
    upper_share: Annotated[float, Meta(ge=0, le=0.95)] = 0.0
    runs_width: _Width = 0.0
