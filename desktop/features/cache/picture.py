"""The pixels of the cache's map, drawn again only when what they show has changed.

Layers that look alike share a row of the picture: of whose a position is, there is one for all
layers that keep everything, however many they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.features.cache.model import measured
from llm_lite.desktop.features.cache.state import MeasuredCache
from llm_lite.desktop.features.program.cached_text import serials
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import SYSTEM, TARGET, TEMPLATE
from llm_lite.desktop.widgets.pixel_image import PixelImage
from llm_lite.desktop.widgets.theme import Palette
from llm_lite.desktop.widgets.ui import Ui

FREE, TEMPLATES, SYSTEMS, USERS, ANSWERS = range(5)
KIND_COLORS = {SYSTEMS: 3, USERS: 0, ANSWERS: 1}  # numbers of the palette's series
CALM = 0.22  # of the background in the colours of owners
OUTSIDE = 0.4  # of the colour of what lies outside a sliding window
LOWEST = 1e-4  # share of attention of the first colour
GAP = 4.0  # pixels a column must have for a line between columns
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
PERIOD = 0.2  # seconds between two pictures while an answer is written
SPREAD = (2.0, 98.0)  # percentiles of a layer's norms at the ends of the scale
OVERVIEW = 0  # row of the whole context


class CacheWindow(Struct, frozen=True):
    """Columns first..first+span over `pixels`."""

    first: float
    span: float
    pixels: int

    @property
    def each(self) -> float:
        return self.pixels / self.span

    def at(self, x: float) -> int:
        """Return the column under pixel x."""
        return math.floor(self.first + x / self.each)

    def x(self, column: float) -> float:
        return (column - self.first) * self.each

    def columns(self) -> NDArray[np.int64]:
        """Return the first column of each pixel, and that of the pixel after the last."""
        edges = self.first + np.arange(self.pixels + 1) / self.each
        return np.floor(edges + 1e-9).astype(np.int64)


class Scale(Struct, frozen=True):
    """The values that the first and the last colour stand for."""

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


class CachePicture(Struct):
    """The picture that was made last; `row_of` gives its row by number of the layer in the
    layout."""

    picture: PixelImage = field(default_factory=PixelImage)
    key: tuple[Any, ...] = ()
    shown: tuple[Any, ...] = ()  # the part of the key that a person changes
    built: float = -1.0
    row_of: list[int] = field(default_factory=list)
    scale: Scale | None = None
    spread: tuple[Any, Floats] | None = None  # measurement, [layers, 2]


def cache_picture(state: AppState, ui: Ui, window: CacheWindow) -> CachePicture:
    """Return the picture, made anew where what it shows has changed; while an answer is written, at
    most once in PERIOD seconds."""
    rows = ui.local(CachePicture)
    rows.picture.begin()
    cache, model = state.cache, state.model
    assert model is not None
    shown = (window, cache.by, cache.slots, state.theme, state.attention.colors, model.cache)
    key = (
        *shown,
        state.owners,
        state.context_used,
        state.in_front.runs,
        state.in_front.forgotten,
        id(measured(state)),
    )
    if rows.key == key:
        return rows
    waits = state.running and shown == rows.shown and ui.now - rows.built < PERIOD
    if waits and rows.key:
        ui.redraw_in(PERIOD)
        return rows
    _build(rows, state, ui, window)
    rows.key, rows.shown, rows.built = key, shown, ui.now
    return rows


def _build(rows: CachePicture, state: AppState, ui: Ui, window: CacheWindow) -> None:
    assert state.model is not None
    whole = CacheWindow(0.0, float(state.model.context), window.pixels)
    everything = CacheLayerInfo(0, (), state.model.context, 0, 0, 0)
    pixels = [_owner_row(state, ui, everything, whole, False)]
    alike: dict[Any, int] = {}
    rows.row_of, rows.scale = [], _scale(rows, state)
    for number, layer in enumerate(state.model.cache.layers):
        one = number if _values(state) is not None else None
        same = (layer.rows, layer.window, one)
        if same not in alike:
            alike[same] = len(pixels)
            pixels.append(_row(rows, state, ui, window, number))
        rows.row_of.append(alike[same])
    rows.picture.write(np.stack(pixels))


def _values(state: AppState) -> MeasuredCache | None:
    return measured(state)


def _row(
    rows: CachePicture, state: AppState, ui: Ui, window: CacheWindow, number: int
) -> NDArray[np.uint32]:
    assert state.model is not None
    layer, slots = state.model.cache.layers[number], state.cache.slots
    if state.cache.by == "owner" or rows.scale is None:
        return _owner_row(state, ui, layer, window, slots, plain=state.cache.by != "owner")
    values = _row_values(rows, state, number)
    base = _owner_row(state, ui, layer, window, slots, plain=True)
    local, positions = _part(state, layer, window, slots)
    known = (positions >= 0) & (positions < len(values))
    shown = np.where(known, values[np.clip(positions, 0, len(values) - 1)], np.nan)
    rgb, alpha = shade(greatest(shown.astype(np.float32), local), rows.scale, *_colors(state))
    faded = np.where(_outside(layer, positions, state.context_used), OUTSIDE, 1.0)
    alpha = alpha * np.nan_to_num(greatest(faded.astype(np.float32), local))
    return np.where(alpha > 0, pack(rgb, alpha), base)


def _colors(state: AppState) -> tuple[str, bool]:
    return state.attention.colors, state.theme == "light"


def _part(
    state: AppState, layer: CacheLayerInfo, window: CacheWindow, slots: bool
) -> tuple[CacheWindow, NDArray[np.int64]]:
    """Return the columns in sight: the window within them, and the position that each shows."""
    assert state.model is not None
    first = max(int(window.first), 0)
    stop = min(int(window.first + window.span) + 2, state.model.context)
    positions = positions_of(layer, state.context_used, max(stop, first + 1), slots)[first:]
    return CacheWindow(window.first - first, window.span, window.pixels), positions


def _outside(layer: CacheLayerInfo, positions: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Return which positions a layer holds that are no longer within reach of its sliding
    window."""
    far = positions < length - layer.window if layer.window else np.zeros(len(positions), bool)
    return (positions >= 0) & far


def _owner_row(
    state: AppState,
    ui: Ui,
    layer: CacheLayerInfo,
    window: CacheWindow,
    slots: bool,
    plain: bool = False,
) -> NDArray[np.uint32]:
    """Return a row in the colours of owners; `plain` shows only what is held, in the colour of
    free ones."""
    local, positions = _part(state, layer, window, slots)
    held = positions >= 0
    found = np.zeros(len(positions), np.int64)
    if not plain:
        mine = kinds(state)
        held &= positions < len(mine)
        found[held] = mine[positions[held]]
    alpha = np.where(positions == -2, 0.0, 1.0)
    alpha[_outside(layer, positions, state.context_used)] = OUTSIDE
    alpha[found == FREE] *= 0.8
    return paint(kind_colors(ui.theme.palette)[found], alpha.astype(np.float32), local)


def _row_values(rows: CachePicture, state: AppState, number: int) -> Floats:
    """Return values by position; norms are given as shares of the layer's own spread."""
    measured = _values(state)
    if measured is None:
        return -ages(state, state.context_used)
    values: Floats = measured.values[number]
    if measured.what == "received" or rows.spread is None:
        return values
    low, high = rows.spread[1][number]
    found: Floats = (values - low) / max(high - low, 1e-9)
    return found


def _scale(rows: CachePicture, state: AppState) -> Scale | None:
    """Return the scale of what is shown; None where there is nothing to show yet."""
    if state.cache.by == "age":
        if not state.context_used:
            return None
        return Scale(-max(float(ages(state, state.context_used).max(initial=1.0)), 1.0), 0.0)
    measured = _values(state)
    if measured is None or not measured.values.size:
        return None
    if measured.what == "received":
        rest = measured.values[:, 1:] if measured.values.shape[1] > 1 else measured.values
        top = float(np.nanmax(np.nan_to_num(rest)))
        return Scale(min(LOWEST, top / 10), max(top, 1e-9), True)
    if rows.spread is None or rows.spread[0] is not measured:
        spread = np.nanpercentile(np.nan_to_num(measured.values), SPREAD, axis=1).T
        rows.spread = (measured, spread.astype(np.float32))
    return Scale(0.0, 1.0)


def kinds(state: AppState) -> NDArray[np.uint8]:
    """Return the kind of what each position holds; positions without a known owner count as the
    template's."""
    owners = np.full(state.context_used, TEMPLATE, np.int64)
    known = state.owners[: state.context_used]
    owners[: len(known)] = known
    users = np.array([m.role != "assistant" for m in state.messages] or [False])
    found = np.full(len(owners), TEMPLATES, np.uint8)
    found[owners == SYSTEM] = SYSTEMS
    found[owners == TARGET] = ANSWERS
    of_message = owners > TEMPLATE
    message = np.clip(owners, 0, len(users) - 1)
    found[of_message] = np.where(users[message[of_message]], USERS, ANSWERS)
    return found


def ages(state: AppState, length: int) -> Floats:
    """Return how many tokens were computed since each position was."""
    text = state.in_front
    return (text.computed - 1 - serials(text, length)).astype(np.float32)


def positions_of(
    layer: CacheLayerInfo, length: int, columns: int, slots: bool
) -> NDArray[np.int64]:
    """Return the position that each column of a layer shows: -1 where it is free,
    -2 where it was overwritten, or where memory has no such place."""
    index = np.arange(columns)
    if not slots:
        found = np.where(index < length, index, -1)
        return np.where(index < length - layer.rows, -2, found)
    last = index + (length - 1 - index) // layer.rows * layer.rows
    found = np.where(index < min(length, layer.rows), last, -1)
    return np.where(index < layer.rows, found, -2)


def kind_colors(palette: Palette) -> NDArray[np.float32]:
    """Return colours, float32 [kind, 3], calmer than the palette: they fill large areas."""
    colors = [palette.hover, palette.faint, *(palette.series[KIND_COLORS[k]] for k in (2, 3, 4))]
    found = np.array([_rgb(color) for color in colors], np.float32)
    found[TEMPLATES:] += (np.array(_rgb(palette.base)) - found[TEMPLATES:]) * CALM
    return found


def _rgb(color: int) -> tuple[int, int, int]:
    return color >> 16, color >> 8 & 255, color & 255


def pack(rgb: NDArray[np.float32], alpha: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Pack colours 0..255 [..., 3] and opacities 0..1 [...] as Dear ImGui does."""
    parts = np.rint(np.clip(rgb, 0, 255)).astype(np.uint32)
    opaque = np.rint(np.clip(alpha, 0, 1) * 255).astype(np.uint32)
    packed = parts[..., 0] | parts[..., 1] << 8 | parts[..., 2] << 16 | opaque << 24
    return packed.astype(np.uint32)


def paint(
    rgb: NDArray[np.float32], alpha: NDArray[np.float32], window: CacheWindow
) -> NDArray[np.uint32]:
    """Return the pixels [..., pixels] of columns [..., columns, 3] and [..., columns].

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
    """Return the sums of values[..., a:b] for neighbouring edges."""
    running = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.float64)
    np.cumsum(values, axis=-1, out=running[..., 1:], dtype=np.float64)
    found: NDArray[np.float32] = np.diff(running[..., edges]).astype(np.float32)
    return found


def greatest(values: Floats, window: CacheWindow) -> Floats:
    """Return the largest value of each pixel's columns [..., pixels], nan where there is none."""
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
    """Return colours and opacities of values; nan is transparent."""
    known = ~np.isnan(values)
    share = scale.share(np.where(known, values, scale.low).astype(np.float32))
    rgb = table(colors, light)[np.rint(share * 255).astype(np.int64), :3].astype(np.float32)
    return rgb, known.astype(np.float32)
