"""The cache as rows of pixels: who owns a position, how old it is, what was measured of it.

A `CacheWindow` maps pixels to columns: positions, or places in memory.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.features.cache.state import serials
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import SYSTEM, TARGET, TEMPLATE
from llm_lite.desktop.widgets.theme import Palette

FREE, TEMPLATES, SYSTEMS, USERS, ANSWERS = range(5)
KIND_COLORS = {SYSTEMS: 3, USERS: 0, ANSWERS: 1}  # numbers of the palette's series
CALM = 0.22  # of the background in the colours of owners
OUTSIDE = 0.4  # of the colour of what lies outside a sliding window
LOWEST = 1e-4  # share of attention of the first colour
GAP = 4.0  # pixels a column must have for a line between columns
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


class CacheWindow(Struct, frozen=True):
    """Columns first..first+span over `pixels`."""

    first: float
    span: float
    pixels: int

    @property
    def each(self) -> float:
        return self.pixels / self.span

    def at(self, x: float) -> int:
        """The column under pixel x."""
        return math.floor(self.first + x / self.each)

    def x(self, column: float) -> float:
        return (column - self.first) * self.each

    def columns(self) -> NDArray[np.int64]:
        """First column of each pixel, and one more."""
        edges = self.first + np.arange(self.pixels + 1) / self.each
        return np.floor(edges + 1e-9).astype(np.int64)


class Scale(Struct, frozen=True):
    """What the first and the last colour stand for."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, values: Floats) -> Floats:
        if self.logarithmic:
            low, high = math.log(max(self.low, 1e-12)), math.log(max(self.high, 1e-12))
            values = np.log(np.maximum(values, self.low))
        else:
            low, high = self.low, self.high
        found: Floats = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0)
        return found


def kinds(state: AppState) -> NDArray[np.uint8]:
    """What each position of the cache holds, by kind; of a cache from a file nobody knows yet."""
    owners = np.full(state.context_used, TEMPLATE, np.int64)
    known = state.owners[: state.context_used]
    owners[: len(known)] = known
    users = np.array([m.role != "assistant" for m in state.messages] or [False])
    found = np.full(len(owners), TEMPLATES, np.uint8)
    found[owners == SYSTEM] = SYSTEMS
    found[owners == TARGET] = ANSWERS
    said = owners > TEMPLATE
    who = np.clip(owners, 0, len(users) - 1)
    found[said] = np.where(users[who[said]], USERS, ANSWERS)
    return found


def ages(state: AppState, length: int) -> Floats:
    """Tokens computed since each position was."""
    cache = state.cache
    return (cache.computed - 1 - serials(cache, length)).astype(np.float32)


def positions_of(
    layer: CacheLayerInfo, length: int, columns: int, slots: bool
) -> NDArray[np.int64]:
    """The position that each column of a layer shows: -1 where it is free,
    -2 where it was overwritten, or where memory has no such place."""
    index = np.arange(columns)
    if not slots:
        found = np.where(index < length, index, -1)
        return np.where(index < length - layer.rows, -2, found)
    last = index + (length - 1 - index) // layer.rows * layer.rows
    found = np.where(index < min(length, layer.rows), last, -1)
    return np.where(index < layer.rows, found, -2)


def kind_colors(palette: Palette) -> NDArray[np.float32]:
    """float32 [kind, 3], calmer than the palette: they fill large areas."""
    colors = [palette.hover, palette.faint, *(palette.series[KIND_COLORS[k]] for k in (2, 3, 4))]
    found = np.array([_rgb(color) for color in colors], np.float32)
    found[TEMPLATES:] += (np.array(_rgb(palette.base)) - found[TEMPLATES:]) * CALM
    return found


def _rgb(color: int) -> tuple[int, int, int]:
    return color >> 16, color >> 8 & 255, color & 255


def pack(rgb: NDArray[np.float32], alpha: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Colours 0..255 [..., 3] and opacities 0..1 [...] as Dear ImGui packs them."""
    parts = np.rint(np.clip(rgb, 0, 255)).astype(np.uint32)
    opaque = np.rint(np.clip(alpha, 0, 1) * 255).astype(np.uint32)
    packed = parts[..., 0] | parts[..., 1] << 8 | parts[..., 2] << 16 | opaque << 24
    return packed.astype(np.uint32)


def paint(
    rgb: NDArray[np.float32], alpha: NDArray[np.float32], window: CacheWindow
) -> NDArray[np.uint32]:
    """Columns [..., columns, 3] and [..., columns] as pixels [..., pixels].

    Several columns of a pixel are mixed; wide ones have a line between them.
    """
    edges = np.clip(window.columns(), 0, alpha.shape[-1])
    counts = np.diff(edges)
    if window.each >= 1:
        index = np.minimum(edges[:-1], alpha.shape[-1] - 1)
        colors, opaque = rgb[..., index, :], alpha[..., index].copy()
        opaque[..., edges[:-1] >= alpha.shape[-1]] = 0.0
        if window.each >= GAP:
            opaque[..., counts > 0] = 0.0
        return pack(colors, opaque)
    weights = _sums(alpha, edges)
    sums = [_sums(rgb[..., part] * alpha, edges) for part in range(3)]
    mixed = np.stack(sums, axis=-1) / np.maximum(weights, 1e-6)[..., None]
    return pack(mixed.astype(np.float32), (weights / np.maximum(counts, 1)).astype(np.float32))


def _sums(values: NDArray[np.float32], edges: NDArray[np.int64]) -> NDArray[np.float32]:
    """Sums of values[..., a:b] for neighbouring edges."""
    running = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.float64)
    np.cumsum(values, axis=-1, out=running[..., 1:], dtype=np.float64)
    found: NDArray[np.float32] = np.diff(running[..., edges]).astype(np.float32)
    return found


def greatest(values: Floats, window: CacheWindow) -> Floats:
    """The largest value of each pixel's columns [..., pixels], nan where there is none."""
    edges = window.columns()
    if window.each >= 1:
        index = np.clip(edges[:-1], 0, values.shape[-1] - 1)
        found = values[..., index].copy()
        found[..., (edges[:-1] >= values.shape[-1]) | (edges[:-1] < 0)] = np.nan
        if window.each >= GAP:
            found[..., np.diff(edges) > 0] = np.nan
        return found
    values = values[..., : max(int(edges[-1]), 1)]
    starts = np.clip(edges[:-1], 0, values.shape[-1] - 1)
    result: Floats = np.fmax.reduceat(values, starts, axis=-1)
    result[..., edges[:-1] >= values.shape[-1]] = np.nan
    return result


def shade(
    values: Floats, scale: Scale, colors: str, light: bool
) -> tuple[NDArray[np.float32], Floats]:
    """Colours and opacities of values; nan is transparent."""
    known = ~np.isnan(values)
    share = scale.share(np.where(known, values, scale.low).astype(np.float32))
    rgb = table(colors, light)[np.rint(share * 255).astype(np.int64), :3].astype(np.float32)
    return rgb, known.astype(np.float32)
