"""The maps that are kept: a thumbnail of every head in one atlas, and a few large ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from llm_lite.core.gpu.device import Device
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.surface import WORD, MapSurface, most_pieces
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer

THUMBNAIL = 64  # pixels a side
WIDEST_ATLAS = 4096  # pixels: every Vulkan device has images as wide
PANEL_STEP, PANEL_LARGEST = 128, 2048  # sides of large maps are multiples of the first
PANELS = 12  # large maps kept


class Clear(Struct, frozen=True):
    """Clear a cell from pixel row `first` on, and its scores from position `scores` on."""

    surface: MapSurface
    number: int
    first: int
    scores: int


class Halve(Struct, frozen=True):
    surface: MapSurface
    number: int


class _Panel(Struct):
    surface: MapSurface
    number: int  # in the kernels' table, counted from the first panel


class Store:
    """Surfaces and cells for the layers of one model. `steps` is what must be done, in order,
    to the pixels that are there before rows are added. `dropped` is called with the name of a
    large map that has gone."""

    def __init__(
        self, device: Device, renderer: ImguiRenderer, layers: Sequence[AttentionLayer],
        scored: int, dropped: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._device = device
        self._renderer = renderer
        self._scored = scored  # rows a head that scores are kept of
        self._dropped = dropped
        self._layers = layers
        self.source_length = 0  # positions that cross-attention sees
        self.heads = [(at, head) for at, layer in enumerate(layers) for head in range(layer.heads)]
        self._numbers = {head: number for number, head in enumerate(self.heads)}
        self.steps: list[Clear | Halve] = []
        self.atlas = self._make_atlas()
        self._panels: OrderedDict[str, _Panel] = OrderedDict()
        self._free = list(range(PANELS))

    @property
    def cells(self) -> int:
        """Return the size of the kernels' table of cells."""
        return len(self.heads) + PANELS

    @property
    def most_pieces(self) -> int:
        """Count the pieces to colour when everything is coloured again."""
        return most_pieces(len(self.heads), THUMBNAIL) + most_pieces(PANELS, PANEL_LARGEST)

    @property
    def nbytes(self) -> int:
        return sum(surface.nbytes for surface in self.surfaces())

    def surfaces(self) -> Iterator[MapSurface]:
        yield self.atlas
        for panel in self._panels.values():
            yield panel.surface

    def _make_atlas(self) -> MapSurface:
        count, size = len(self.heads), (THUMBNAIL, THUMBNAIL)
        most = max(head for _, head in self.heads) + 1
        columns = min(most * max(1, 1024 // (most * THUMBNAIL)), WIDEST_ATLAS // THUMBNAIL)
        atlas = MapSurface(self._device, self._renderer, count, columns, size)
        pixels = THUMBNAIL * THUMBNAIL
        for number, (layer, head) in enumerate(self.heads):
            scores = number * self._scored
            atlas.cells.append(Cell(layer, head, number, number * pixels, *size, scores=scores))
        return atlas

    def thumbnail(self, layer: int, head: int, length: int) -> int:
        """Return the number of a head's cell in the atlas, fit for `length` positions."""
        number = self._numbers[layer, head]
        cell, columns = self.atlas.cells[number], self._columns(layer, length)
        shift = pooling(max(length, columns), THUMBNAIL)
        if cell.fresh or shift < cell.shift or cell.columns != columns:
            cell.columns = columns
            self._restart(self.atlas, number, 0, 0, shift)
        self._pool(self.atlas, number, shift)
        cell.grow(length)
        return number

    def panel(
        self, name: str, layer: int, head: int, rows: range, columns: range, side: float,
        length: int,
    ) -> MapSurface:  # fmt: skip
        """Return the surface, of one cell, that shows these positions on `side` pixels."""
        size = min(PANEL_LARGEST, -(-int(max(side, 1)) // PANEL_STEP) * PANEL_STEP)
        surface = self._panel(name, size)
        cell, shift = surface.cells[0], pooling(max(len(rows), len(columns)), size)
        same = (cell.layer, cell.head) == (layer, head) and not cell.fresh
        same = same and (cell.row, cell.column) == (rows.start, columns.start)
        seen = self._columns(layer, length)
        if not same or shift < cell.shift or cell.columns != seen:
            cell.layer, cell.head, cell.columns = layer, head, seen
            self._restart(surface, 0, rows.start, columns.start, shift)
        self._pool(surface, 0, shift)
        cell.grow(length)
        return surface

    def _columns(self, layer: int, length: int) -> int:
        """Return the key positions that each row of a cell sees; 0: those up to its own."""
        if self._layers[layer].is_causal:
            return 0
        return self.source_length if self._layers[layer].cross else length

    def drop(self, name: str) -> None:
        """Drop a large map, if it is kept."""
        if name in self._panels:
            self._drop(name)

    def _panel(self, name: str, size: int) -> MapSurface:
        panel = self._panels.get(name)
        if panel is not None and panel.surface.size[0] != size:
            self._drop(name)
            panel = None
        if panel is None:
            while not self._free:
                self._drop(next(iter(self._panels)))
            number = self._free.pop()
            surface = MapSurface(self._device, self._renderer, 1, 1, (size, size))
            surface.cells.append(Cell(-1, 0, len(self.heads) + number, 0, size, size))
            panel = self._panels[name] = _Panel(surface, number)
        self._panels.move_to_end(name)
        return panel.surface

    def _drop(self, name: str) -> None:
        panel = self._panels.pop(name)
        self._free.append(panel.number)
        self.steps = [step for step in self.steps if step.surface is not panel.surface]
        panel.surface.retire()
        self._dropped(name)

    def _restart(self, surface: MapSurface, number: int, row: int, column: int, shift: int) -> None:
        cell = surface.cells[number]
        cell.restart(row, column, shift)
        cell.fresh = False
        self.steps.append(Clear(surface, number, 0, 0))

    def _pool(self, surface: MapSurface, number: int, shift: int) -> None:
        cell = surface.cells[number]
        while cell.shift < shift:
            cell.seen = min(cell.seen, cell.end)
            cell.shift += 1
            self.steps.append(Halve(surface, number))

    def shrink(self, length: int) -> None:
        """Note that positions from `length` on have changed."""
        for surface in self.surfaces():
            for number, cell in enumerate(surface.cells):
                first = None if cell.fresh else cell.shrink(length)
                if first is not None:
                    self.steps.append(Clear(surface, number, first, length))

    def redo(self) -> None:
        """Compute every map again."""
        for surface in self.surfaces():
            for cell in surface.cells:
                cell.redo()

    def retire(self) -> None:
        for surface in self.surfaces():
            surface.retire()

    def close(self) -> None:
        for surface in self.surfaces():
            surface.close()


def pooling(positions: int, pixels: int) -> int:
    """Return the smallest shift with which so many positions fit into `pixels`."""
    return max(0, (-(-positions // pixels) - 1).bit_length())


def largest_surface(heads: int) -> int:
    """Return the bytes of the largest buffer of a surface."""
    return max(heads * THUMBNAIL**2, PANEL_LARGEST**2) * WORD
