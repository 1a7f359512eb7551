"""Outlines to coverage: the share of each pixel that lies inside, exact for straight edges.

The method is that of font-rs: every edge adds its signed height, and the area to its right, to the
pixels that it crosses; the sum along a row then is the winding there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def coverage(contours: list[Floats], width: int, height: int) -> NDArray[np.uint8]:
    """Closed polygons, each [points, 2] of x and y in pixels, as [height, width] from 0 to 255."""
    start = np.concatenate(contours)
    end = np.concatenate([np.roll(contour, -1, axis=0) for contour in contours])
    total = np.zeros((height, width + 2))
    _add(total, start, end)
    filled = np.abs(np.cumsum(total, axis=1))[:, :width]
    shares: NDArray[np.uint8] = np.rint(np.clip(filled, 0.0, 1.0) * 255).astype(np.uint8)
    return shares


def _add(total: Floats, start: Floats, end: Floats) -> None:
    keep = start[:, 1] != end[:, 1]
    start, end = _cut(start[keep], end[keep], axis=1)
    start, end = _cut(start, end, axis=0)
    height, width = total.shape
    middle = (start + end) / 2
    row = np.floor(middle[:, 1]).astype(np.intp)
    column = np.floor(middle[:, 0])
    inside = (row >= 0) & (row < height)
    at = np.clip(column, 0, width - 2).astype(np.intp)
    share = np.clip(at + 1 - middle[:, 0], 0.0, 1.0)  # of the pixel, right of the edge
    rise = end[:, 1] - start[:, 1]
    np.add.at(total, (row[inside], at[inside]), (rise * share)[inside])
    np.add.at(total, (row[inside], at[inside] + 1), (rise * (1 - share))[inside])


def _cut(start: Floats, end: Floats, axis: int) -> tuple[Floats, Floats]:
    """Edges cut where they cross whole numbers on an axis: then each lies in one row or column."""
    low = np.minimum(start[:, axis], end[:, axis])
    high = np.maximum(start[:, axis], end[:, axis])
    first, last = np.floor(low) + 1, np.ceil(high) - 1
    cuts = np.maximum(last - first + 1, 0).astype(np.intp)
    if not cuts.any():
        return start, end
    parts = cuts + 1
    owner = np.repeat(np.arange(len(start)), parts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, stop, turned = start[owner], end[owner], (start[:, axis] > end[:, axis])[owner]
    line = first[owner] + place  # the cut behind a part, counted from the low end
    span = (high - low)[owner]
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.where(place == 0, 0.0, (line - 1 - low[owner]) / span)
        behind = np.where(place == cuts[owner], 1.0, (line - low[owner]) / span)
    from_low, to_high = np.where(turned, 1 - before, before), np.where(turned, 1 - behind, behind)
    a = np.where(turned, to_high, from_low)[:, None]
    b = np.where(turned, from_low, to_high)[:, None]
    return begin + (stop - begin) * a, begin + (stop - begin) * b
