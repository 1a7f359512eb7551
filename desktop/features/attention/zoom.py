"""What part of the text large maps show: along the diagonal, or of cross-attention a part of the
target and a part of the source."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.features.attention.map import MapWindow, square
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.ui import Ui

LEAST = 16  # tokens that zooming ends at
ZOOM = 1.25  # a notch of the wheel


class AxisZoom(Struct):
    """What part of the tokens of an axis is shown; `count` 0 shows all of them, as they grow."""

    start: float = 0.0
    count: float = 0.0

    def window(self, length: int) -> range:
        if not self.count or self.count >= length:
            return range(length)
        count = max(round(self.count), min(LEAST, length))
        start = min(max(round(self.start), 0), length - count)
        return range(start, start + count)

    def set(self, start: float, count: float, length: int) -> None:
        self.count = 0.0 if count >= length else max(count, LEAST)
        self.start = min(max(start, 0.0), max(length - count, 0.0))

    def pan(self, moved: float, length: int) -> None:
        """By so many tokens."""
        if self.count:
            self.set(self.start + moved, self.count, length)

    def scale(self, notches: float, share: float, length: int) -> None:
        """About a place from 0 to 1 of what is shown."""
        start, now = self.window(length).start, self.count or float(length)
        count = min(max(now * ZOOM**-notches, LEAST), length)
        self.set(start + share * (now - count), count, length)


class MapZoom(Struct):
    """Of all large maps. `columns` is used where these are of another text."""

    rows: AxisZoom = field(default_factory=AxisZoom)
    columns: AxisZoom = field(default_factory=AxisZoom)

    def window(self, maps: HeadMaps) -> MapWindow:
        length, source = maps.length, source_length(maps)
        if source is None:
            return square(self.rows.window(length))
        return MapWindow(self.rows.window(length), self.columns.window(source))

    def show_all(self) -> None:
        self.rows, self.columns = AxisZoom(), AxisZoom()


def source_length(maps: HeadMaps) -> int | None:
    """Tokens of the source, where the maps are of cross-attention; None: columns are the rows'
    tokens."""
    layers = maps.layers
    return len(maps.column_tokens(0)) if layers and layers[0].cross else None


def zoom_of(ui: Ui) -> MapZoom:
    zoom: MapZoom = ui.memory.setdefault("head.zoom", MapZoom())
    return zoom


def whole(maps: HeadMaps) -> MapWindow:
    """All tokens of both axes."""
    return MapZoom().window(maps)


def use_pointer(zoom: MapZoom, maps: HeadMaps, at: ImVec2, side: float) -> None:
    """The wheel zooms about the pointer; dragging pans, along the diagonal where both axes have the
    same tokens."""
    io: Any = imgui.get_io()
    window, source = zoom.window(maps), source_length(maps)
    moved = (io.mouse_delta.x / side, io.mouse_delta.y / side)
    place = [(io.mouse_pos.x - at.x) / side, (io.mouse_pos.y - at.y) / side]
    across, down = (min(max(share, 0.0), 1.0) for share in place)
    if imgui.is_item_active():
        rows = sum(moved) / 2 if source is None else moved[1]
        zoom.rows.pan(-rows * len(window.rows), maps.length)
        if source is not None:
            zoom.columns.pan(-moved[0] * len(window.columns), source)
    if imgui.is_item_hovered() and io.mouse_wheel:
        share = (across + down) / 2 if source is None else down
        zoom.rows.scale(io.mouse_wheel, share, maps.length)
        if source is not None:
            zoom.columns.scale(io.mouse_wheel, across, source)
    imgui.set_item_key_owner(imgui.Key.mouse_wheel_y)
