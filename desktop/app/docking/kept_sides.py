"""The layouts of the window as the settings keep them: plain values."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from llm_lite.core.records import asdict
from llm_lite.desktop.features.layouts.state import LayoutName, Layouts, Panel, Sides, Sizes

_Width = Annotated[float, Meta(ge=0, le=1000)]  # logical pixels
LAYOUTS: tuple[LayoutName, ...] = ("read", "inspect", "compare")


class KeptSides(Struct, frozen=True):
    """The side panels of a layout, as `state.window.layouts` has them."""

    list: Panel = "auto"
    inspector: Panel = "auto"
    list_width: _Width = 0.0
    inspector_width: _Width = 0.0
    upper_share: Annotated[float, Meta(ge=0, le=0.95)] = 0.0
    runs_width: _Width = 0.0


def kept_layouts(layouts: Layouts) -> dict[str, Any]:
    """Return the fields of the settings. A comparison is not what a person wants to begin with: the
    layout before it is kept."""
    name = layouts.before if layouts.name == "compare" else layouts.name
    kept: dict[str, Any] = {"layout_name": name}
    for one in LAYOUTS:
        sides = layouts.of(one)
        kept[one] = KeptSides(sides.list, sides.inspector, **asdict(sides.sizes))
    return kept


def layouts_of(name: LayoutName, settings: Any) -> Layouts:
    """Restore layouts from fields of the settings, with the layout `name` in use."""
    found = Layouts(name, name)
    for one in LAYOUTS:
        kept: KeptSides = getattr(settings, one)
        sizes = Sizes(**{name: getattr(kept, name) for name in Sizes.__struct_fields__})
        found = found.with_sides(one, Sides(kept.list, kept.inspector, sizes))
    return found
