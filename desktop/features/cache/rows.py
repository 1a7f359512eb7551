"""The pixels of the cache's map, drawn again only when what they show has changed.

Layers that look alike share a row of the picture: of whose a position is, there is one for all
layers that keep everything, however many they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.desktop.features.cache.colors import (
    FREE,
    LOWEST,
    OUTSIDE,
    CacheWindow,
    Floats,
    Scale,
    ages,
    greatest,
    kind_colors,
    kinds,
    pack,
    paint,
    positions_of,
    shade,
)
from llm_lite.desktop.features.cache.state import MeasuredCache
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.pixel_image import PixelImage
from llm_lite.desktop.widgets.ui import Ui

PERIOD = 0.2  # seconds between two pictures while an answer is written
SPREAD = (2.0, 98.0)  # percentiles of a layer's norms at the ends of the scale
OVERVIEW = 0  # row of the whole context


class Rows(Struct):
    """`row_of` gives the picture's row by number of the layer in the layout."""

    picture: PixelImage = field(default_factory=PixelImage)
    key: tuple[Any, ...] = ()
    shown: tuple[Any, ...] = ()  # the part of the key that a person changes
    built: float = -1.0
    row_of: list[int] = field(default_factory=list)
    scale: Scale | None = None
    spread: tuple[Any, Floats] | None = None  # measurement, [layers, 2]


def rows_of(state: AppState, ui: Ui, window: CacheWindow) -> Rows:
    """The picture as it is to be drawn in this frame."""
    rows: Rows = ui.memory.setdefault("kv.rows", Rows())
    rows.picture.begin()
    cache, model = state.cache, state.model
    assert model is not None
    shown = (window, cache.by, cache.slots, state.theme, state.attention.colors, model.cache)
    key = (
        *shown,
        state.owners,
        state.context_used,
        cache.made,
        cache.forgotten,
        id(cache.measured),
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


def _build(rows: Rows, state: AppState, ui: Ui, window: CacheWindow) -> None:
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
    measured = state.cache.measured
    return measured if measured is not None and measured.what == state.cache.by else None


def _row(
    rows: Rows, state: AppState, ui: Ui, window: CacheWindow, number: int
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
    """The columns in sight: the window within them, and the position each shows."""
    assert state.model is not None
    first = max(int(window.first), 0)
    stop = min(int(window.first + window.span) + 2, state.model.context)
    positions = positions_of(layer, state.context_used, max(stop, first + 1), slots)[first:]
    return CacheWindow(window.first - first, window.span, window.pixels), positions


def _outside(layer: CacheLayerInfo, positions: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Held, but no longer within reach of the sliding window."""
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
    """Whose each position is; `plain`: only what is held, as if free."""
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


def _row_values(rows: Rows, state: AppState, number: int) -> Floats:
    """By position; of norms the share of the layer's own spread."""
    measured = _values(state)
    if measured is None:
        return -ages(state, state.context_used)
    values: Floats = measured.values[number]
    if measured.what == "received" or rows.spread is None:
        return values
    low, high = rows.spread[1][number]
    found: Floats = (values - low) / max(high - low, 1e-9)
    return found


def _scale(rows: Rows, state: AppState) -> Scale | None:
    """None where there is nothing to show yet."""
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
