"""Where a view finds a map: a part of a texture."""

from __future__ import annotations

from llm_lite.desktop.attention.surface import MapSurface
from llm_lite.desktop.state.maps import MapPicture


def picture_of(surface: MapSurface, number: int, columns: int, rows: int) -> MapPicture:
    """So many positions of a cell."""
    cell = surface.cells[number]
    left, top = surface.place(number)
    width, height = surface.image.width, surface.image.height
    shown = (columns / (1 << cell.shift), rows / (1 << cell.shift))
    high = ((left + shown[0]) / width, (top + shown[1]) / height)
    low = (left / width, top / height)
    return MapPicture(surface.texture, low, high, 1 << cell.shift, cell.waiting, cell.missing)
