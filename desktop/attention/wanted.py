"""Which maps the picture on the screen holds: what each view asked for when it was drawn last."""

from __future__ import annotations

from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.surface import MapSurface


class Asked:
    """Thumbnails by number, large maps by name. A view that keeps its picture keeps its maps."""

    def __init__(self) -> None:
        self.thumbnails: dict[int, Cell] = {}
        self.pictures: dict[str, MapSurface] = {}
        self._views: dict[int | str, str] = {}  # who asked
        self._view = ""

    def begin(self, view: str) -> None:
        """`view` is about to be drawn: what it asked for before counts no longer."""
        self._view = view
        for key in [key for key, asker in self._views.items() if asker == view]:
            self.drop(key)

    def thumbnail(self, number: int, cell: Cell) -> None:
        self.thumbnails[number], self._views[number] = cell, self._view

    def picture(self, name: str, surface: MapSurface) -> None:
        self.pictures[name], self._views[name] = surface, self._view

    def drop(self, key: int | str) -> None:
        """Forget a thumbnail or a large map, if it was asked for."""
        if self._views.pop(key, None) is None:
            return
        if isinstance(key, str):
            del self.pictures[key]
        else:
            del self.thumbnails[key]

    def cells(self) -> list[Cell]:
        """Large maps first."""
        return [
            *(surface.cells[0] for surface in self.pictures.values()),
            *self.thumbnails.values(),
        ]
