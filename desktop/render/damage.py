"""The parts of a picture that differ from the one before, for devices that are slow to fill pixels.

Two frames are compared triangle by triangle, in the order in which they are painted, so what is
outside the boxes is the same to the last bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from imgui_bundle import imgui
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.desktop.render.draw_lists import Box, DrawCommand, DrawList

MOST = 6  # boxes a frame: each is a pass of its own
PASS = 50_000  # pixels that are drawn in the time that another pass takes
NEAR = 48  # triangles between two that differ: some twenty letters
VERTEX_WORDS = 5  # x, y, u, v, colour

Words = NDArray[np.uint32]


class _Painted(Struct, frozen=True):
    """A draw list as it was: commands as (clip box, texture), their triangles, words of each."""

    source: tuple[DrawCommand, ...]
    commands: tuple[tuple[Box, int], ...]
    raw: bytes
    triangles: Words  # [triangles, 3, VERTEX_WORDS]
    owners: NDArray[np.intp]  # command of each triangle


class Damage:
    """Remembers the last frame."""

    def __init__(self) -> None:
        self._before: dict[str, _Painted] = {}
        self._extent = (0, 0)

    def forget(self) -> None:
        """Make the next frame differ everywhere."""
        self._extent = (0, 0)

    def of(
        self, lists: Sequence[DrawList], extent: tuple[int, int], touched: set[int]
    ) -> list[Box] | None:
        """Return the boxes in which this frame differs from the last; None if it differs
        everywhere. `touched` textures show something else than before."""
        now = {one.name: _painted(one, self._before.get(one.name)) for one in lists}
        before, self._before = self._before, now
        known, self._extent = self._extent == extent, extent
        if not known or list(before) != list(now):
            return None
        found: list[Box] = []
        for name, painted in now.items():
            found += _differences(before[name], painted)
            found += [box for box, texture in painted.commands if texture in touched]
        whole = (0, 0, *extent)
        return joined([box for box in (clipped(box, whole) for box in found) if box is not None])


def _painted(one: DrawList, before: _Painted | None) -> _Painted:
    """Read what a list paints; return `before` if that is the same."""
    raw = ctypes.string_at(one.vertices, 4 * VERTEX_WORDS * one.vertex_count)
    wide = imgui.INDEX_SIZE
    order = ctypes.string_at(one.indices, wide * one.index_count)
    raw += order
    if before is not None and before.raw == raw and before.source == one.commands:
        return before
    words = np.frombuffer(raw, np.uint32, VERTEX_WORDS * one.vertex_count)
    index = np.frombuffer(order, np.uint32 if wide == 4 else np.uint16).astype(np.intp)
    commands = one.commands
    owners = np.repeat(np.arange(len(commands)), [c.indices for c in commands])[: len(index)]
    index = index[: len(owners)] + np.array([c.first_vertex for c in commands], np.intp)[owners]
    triangles = words.reshape(-1, VERTEX_WORDS)[index].reshape(-1, 3, VERTEX_WORDS)
    clips = tuple((_box(command.clip), command.texture) for command in commands)
    return _Painted(commands, clips, raw, triangles, owners[::3])


def _differences(old: _Painted, new: _Painted) -> list[Box]:
    if old is new:
        return []
    if old.commands != new.commands:
        return [box for box, _ in {*old.commands, *new.commands}]
    first, last = _same_ends(old, new)
    if len(old.triangles) == len(new.triangles):
        other = (old.triangles != new.triangles).any(axis=(1, 2)) | (old.owners != new.owners)
        rows = np.flatnonzero(other)
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > NEAR) + 1) if len(rows) else []
        return [box for run in runs for one in (old, new) for box in _bounds(one, run)]
    middle = (_bounds(one, np.arange(first, len(one.triangles) - last)) for one in (old, new))
    return [box for boxes in middle for box in boxes]


def _same_ends(old: _Painted, new: _Painted) -> tuple[int, int]:
    """Count the triangles that both begin with, and those that both end with."""
    most = min(len(old.triangles), len(new.triangles))
    first = _equal(old, new, slice(0, most), slice(0, most))
    rest = most - first
    ends = slice(len(old.triangles) - rest, None), slice(len(new.triangles) - rest, None)
    return first, _equal(old, new, *ends, backwards=True) if rest else 0


def _equal(old: _Painted, new: _Painted, a: slice, b: slice, *, backwards: bool = False) -> int:
    same = (old.triangles[a] == new.triangles[b]).all(axis=(1, 2))
    same &= old.owners[a] == new.owners[b]
    if backwards:
        same = same[::-1]
    return len(same) if same.all() else int(np.argmin(same))


def _bounds(one: _Painted, rows: NDArray[np.intp]) -> list[Box]:
    """Return the box around triangles, within the clip boxes of their commands."""
    if not len(rows):
        return []
    places = np.ascontiguousarray(one.triangles[rows, :, :2]).view(np.float32)
    low = np.floor(places.min(axis=(0, 1))).astype(int) - 1
    high = np.ceil(places.max(axis=(0, 1))).astype(int) + 1
    clips = np.array([one.commands[at][0] for at in np.unique(one.owners[rows])])
    limit = (*clips[:, :2].min(axis=0).tolist(), *clips[:, 2:].max(axis=0).tolist())
    box = clipped((int(low[0]), int(low[1]), int(high[0]), int(high[1])), limit)
    return [] if box is None else [box]


def _box(clip: tuple[float, float, float, float]) -> Box:
    """Return a box that covers a clip rectangle: these lie on whole pixels or are drawn as if they
    did, and a pixel more does no harm."""
    x0, y0, x1, y1 = map(int, clip)
    return x0 - 1, y0 - 1, x1 + 1, y1 + 1


def clipped(box: Box, to: Sequence[int]) -> Box | None:
    x0, y0, x1, y1 = max(box[0], to[0]), max(box[1], to[1]), min(box[2], to[2]), min(box[3], to[3])
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


def joined(boxes: list[Box]) -> list[Box]:
    """Return fewer boxes that cover these: neighbours are joined, and at most MOST are left."""
    done: list[Box] = []
    for box in dict.fromkeys(boxes):
        while (near := _near(done, box)) >= 0:
            box = _around(done.pop(near), box)
        done.append(box)
    while len(done) > MOST:
        pairs = ((a, b) for i, a in enumerate(done) for b in done[i + 1 :])
        a, b = min(pairs, key=lambda p: _area(_around(*p)) - _area(p[0]) - _area(p[1]))
        done = [box for box in done if box not in (a, b)] + [_around(a, b)]
    return done


def _near(boxes: list[Box], box: Box) -> int:
    """Return the index of the first box that is cheaper to draw together with `box` than apart; -1
    if there is none. Plain comparisons: there are a hundred of these a frame."""
    x0, y0, x1, y1 = box
    spare = (x1 - x0) * (y1 - y0) + PASS
    for at, (left, top, right, bottom) in enumerate(boxes):
        own = (right - left) * (bottom - top)
        width = (right if right > x1 else x1) - (left if left < x0 else x0)
        height = (bottom if bottom > y1 else y1) - (top if top < y0 else y0)
        if width * height <= own + spare:
            return at
    return -1


def _around(a: Box, b: Box) -> Box:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])
