"""Queries and keys on the device: the executor's own buffers, or copies of what the host holds.

Copies are made a row once, for the layers that are shown, through a buffer that both can see.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from msgspec import Struct

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.desktop.attention.surface import STORAGE
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer

STAGING_BYTES = 4 << 20  # copied in a frame at most, but a row always
CACHE_BYTES = 256 << 20  # of copies of layers, but one always; those not used for longest go first


class _Copy(Struct):
    """A layer's queries and keys on the device, and which of their rows are there."""

    queries: Buffer
    keys: Buffer
    keys_there: int
    held: Any  # int64 [ring rows]: the position whose query is there, or -1

    @property
    def nbytes(self) -> int:
        return self.queries.size + self.keys.size


class Uploads:
    """Copies for one AttentionSource whose executor computes on the host."""

    def __init__(self, device: Device, renderer: ImguiRenderer, source: Any, slots: int) -> None:
        self._device = device
        self._renderer = renderer
        self._source = source
        self._copies: OrderedDict[int, _Copy] = OrderedDict()
        size = max(STAGING_BYTES, _widest(source))
        self._staging = [Buffer(device, size, 0, host=True) for _ in range(slots)]
        self._slot = self._used = 0
        self._in_use: dict[int, int] = {}  # layers that this frame reads or fills, and their bytes
        self._regions: list[tuple[Buffer, int, int, int]] = []  # target, from, to, size

    @property
    def nbytes(self) -> int:
        return sum(copy.nbytes for copy in self._copies.values())

    def begin(self, slot: int) -> None:
        """Begin a frame; the slot's earlier frame is done on the device, and has recorded what it
        staged."""
        assert not self._regions, "copies that are never made would count as made"
        self._slot, self._used = slot, 0
        self._in_use.clear()

    @property
    def staged(self) -> bool:
        """Return True if this frame has copies to record."""
        return bool(self._regions)

    def buffers(self, layer: int) -> tuple[BufferRange, BufferRange]:
        copy = self._copy(layer)
        return (copy.queries, 0, copy.queries.size), (copy.keys, 0, copy.keys.size)

    def has(self, layer: int) -> bool:
        return layer in self._copies

    def forget_from(self, length: int) -> None:
        """Forget copies of positions from `length` on, which have changed."""
        for copy in self._copies.values():
            copy.keys_there = min(copy.keys_there, length)
            copy.held[copy.held >= length] = -1

    def ensure(self, layer: int, first: int, count: int) -> bool:
        """Copy what these query rows need into the staging buffer; return False when it has no
        room left in this frame."""
        if not self._fits(layer):
            return False
        copy, last = self._copy(layer), first + count
        end = last if self._source.layers[layer].is_causal else int(self._source.columns(layer))
        if copy.keys_there < end:
            copy.keys_there = self._stage_keys(layer, copy, end)
            if copy.keys_there < end:
                return False
        positions = np.arange(first, last)
        missing = positions[copy.held[positions % len(copy.held)] != positions]
        return not len(missing) or self._stage_queries(layer, copy, missing)

    def _fits(self, layer: int) -> bool:
        """Return True if this frame can hold a layer beside those that it uses."""
        if layer not in self._in_use:
            size = sum(array.nbytes for array in self._rows(layer))
            if self._in_use and sum(self._in_use.values()) + size > CACHE_BYTES:
                return False
            self._in_use[layer] = size
        return True

    def _rows(self, layer: int) -> tuple[Any, Any]:
        return self._source.host_queries(layer), self._source.host_keys(layer)

    def _stage_keys(self, layer: int, copy: _Copy, end: int) -> int:
        """Copy keys up to position `end` into the staging buffer, of a ring those that it holds;
        return the first not there."""
        keys = self._source.host_keys(layer)
        ring = len(keys)
        at = max(copy.keys_there, int(self._source.columns(layer)) - ring)
        while at < end:
            first = at % ring
            last = min(ring, first + end - at)
            done = self._stage(keys, copy.keys, first, last)
            at += done - first
            if done < last:
                break
        return at

    def _stage_queries(self, layer: int, copy: _Copy, positions: Any) -> bool:
        """Copy each run of rows that lie one after the other in the ring into the staging buffer;
        return False when it has no room left."""
        queries, places = self._source.host_queries(layer), positions % len(copy.held)
        cuts = np.flatnonzero(np.diff(places) != 1) + 1
        for run in np.split(np.arange(len(places)), cuts):
            first, last = int(places[run[0]]), int(places[run[-1]]) + 1
            done = self._stage(queries, copy.queries, first, last) - first
            copy.held[places[run[:done]]] = positions[run[:done]]
            if done < last - first:
                return False
        return True

    def _stage(self, rows: Any, target: Buffer, first: int, last: int) -> int:
        """Copy rows first .. last - 1 as far as there is room; the first row not copied."""
        width, buffer = _width(rows), self._staging[self._slot]
        last = min(last, first + (buffer.size - self._used) // width)
        size = (last - first) * width
        if size <= 0:
            return first
        staging = buffer.array(np.uint8)[self._used : self._used + size]
        staging[:] = np.ascontiguousarray(rows[first:last]).reshape(-1).view(np.uint8)
        self._regions.append((target, self._used, first * width, size))
        self._used += size
        return last

    def record(self, commands: Any) -> None:
        """Record the copies; they are ordered by the caller's barriers."""
        source = self._staging[self._slot].handle
        for target, start, to, size in self._regions:
            region = vk.VkBufferCopy(srcOffset=start, dstOffset=to, size=size)
            vk.vkCmdCopyBuffer(commands, source, target.handle, 1, [region])
        self._regions.clear()

    def _copy(self, layer: int) -> _Copy:
        if layer not in self._copies:
            self._copies[layer] = self._make(layer)
        self._copies.move_to_end(layer)
        return self._copies[layer]

    def _make(self, layer: int) -> _Copy:
        arrays = self._rows(layer)
        held = np.full(len(arrays[0]), -1, np.int64)
        made = [Buffer(self._device, a.nbytes, STORAGE, host=False) for a in arrays]
        return _Copy(made[0], made[1], 0, held)

    def evict(self) -> bool:
        """Drop copies beyond the budget that this frame does not use; return True if any went."""
        gone = False
        for layer in list(self._copies):
            if self.nbytes <= CACHE_BYTES or layer in self._in_use:
                continue
            copy = self._copies.pop(layer)
            self._renderer.retire(copy.queries.close)
            self._renderer.retire(copy.keys.close)
            gone = True
        return gone

    def retire(self) -> None:
        """Close when the frames in flight are done."""
        self._renderer.retire(self.close)

    def close(self) -> None:
        """Close everything; the device is done with it."""
        for copy in self._copies.values():
            copy.queries.close()
            copy.keys.close()
        self._copies.clear()
        for buffer in self._staging:
            buffer.close()


def largest_copy(source: Any) -> int:
    """Return the bytes of the largest buffer that copies need; 0 where the device holds all."""
    return max((int(array.nbytes) for array in _arrays(source)), default=0)


def _widest(source: Any) -> int:
    """Return the bytes of the longest row."""
    return max(map(_width, _arrays(source)))


def _arrays(source: Any) -> list[Any]:
    layers = range(len(source.layers))
    found = [*map(source.host_queries, layers), *map(source.host_keys, layers)]
    return [array for array in found if array is not None]


def _width(rows: Any) -> int:
    return int(rows.shape[1]) * int(rows.itemsize)
