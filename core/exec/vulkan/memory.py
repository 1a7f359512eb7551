"""A model's memory on the device: weights in parts the driver can bind, the cache, scratch.

Blocks of a file lie in rows, whose sizes (18, 20, 34 bytes) keep nothing aligned: they become
tiles. Tiles lie as they do on disk. Rows of values are padded to whole blocks of 32. A matrix is
cut into parts where it would exceed maxStorageBufferRange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import DeviceError
from llm_lite.core.files.mapping import drop_pages, is_mapped
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.formats import COLUMNS, FORMATS, TILE_ROWS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.quant.twins import to_tiles
from llm_lite.core.records import replace

STORAGE = 0x20 | 0x8  # VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, .._STORAGE_TEXEL_BUFFER_BIT
ARENA_BYTES = 256 << 20
MOST_PART_BYTES = 1 << 30  # some drivers fail beyond 2 GiB, and kernels count words in 32 bits
MOST_PART_ROWS = 2 * 65520  # a workgroup makes 2 rows or more; Vulkan promises 65535 workgroups
ALIGNMENT = 256  # the largest minStorageBufferOffsetAlignment that Vulkan allows
UPLOAD_BYTES = 16 << 20  # of a weight converted at a time

Bytes = NDArray[np.uint8]


class WeightPart(Struct, frozen=True):
    """Rows first .. first + rows - 1 of a weight."""

    first: int
    rows: int
    place: BufferRange


class Arena:
    """Device memory handed out in aligned ranges and freed together."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: list[Buffer] = []
        self._at = 0

    def reserve(self, size: int) -> BufferRange:
        """Return a range of `size` bytes, rounded up to whole words."""
        size = -(-size // 4) * 4
        if not self._buffers or self._at + size > self._buffers[-1].size:
            self._grow(size)
        start = self._at
        self._at = _aligned(start + size)
        return self._buffers[-1], start, size

    def _grow(self, size: int) -> None:
        self._buffers.append(Buffer(self._device, max(size, ARENA_BYTES), STORAGE, host=False))
        self._at = 0

    @property
    def nbytes(self) -> int:
        return sum(buffer.size for buffer in self._buffers)

    def zero(self) -> None:
        """Set all bytes of all ranges to 0."""
        for buffer in self._buffers:
            buffer.zero()

    def close(self) -> None:
        for buffer in self._buffers:
            buffer.close()
        self._buffers.clear()


class FixedArena(Arena):
    """An arena of one buffer of a size known beforehand, as `total` counts it."""

    def __init__(self, device: Device, sizes: Iterable[int]) -> None:
        super().__init__(device)
        self._limit = total(sizes)

    def _grow(self, size: int) -> None:
        left = max(size, min(self._limit, ARENA_BYTES))
        self._limit -= left
        self._buffers.append(Buffer(self._device, left, STORAGE, host=False))
        self._at = 0


def buffer_sizes(sizes: Iterable[int]) -> list[int]:
    """Return the sizes of the buffers that a `FixedArena` of ranges of these sizes ends up with."""
    ranges = [_aligned(-(-size // 4) * 4) for size in sizes]
    limit, at, found = sum(ranges), 0, list[int]()
    for size in ranges:
        if not found or at + size > found[-1]:
            found.append(max(size, min(limit, ARENA_BYTES)))
            limit, at = limit - found[-1], 0
        at += size
    return found


def total(sizes: Iterable[int]) -> int:
    return sum(_aligned(-(-size // 4) * 4) for size in sizes)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def matrix_bytes(dtype: str, rows: int, columns: int) -> int:
    """Return the bytes of `rows` rows of `columns` values."""
    form = FORMATS[FORMATS[dtype].multiplied]
    return form.nbytes((rows, columns if form.layout == "tiles" else _padded(columns)))


def as_read(dtype: str, data: Bytes, rows: int, columns: int) -> Bytes:
    """Rearrange rows from the file's layout to that of the kernels."""
    form = FORMATS[dtype]
    if form.layout == "rows":
        return to_tiles(dtype, data, (rows, columns))
    if form.layout == "values" and columns % COLUMNS:
        more = (_padded(columns) - columns) * form.block_bytes
        return np.pad(data.reshape(rows, -1), ((0, 0), (0, more)))
    return data


def _padded(columns: int) -> int:
    return -(-columns // COLUMNS) * COLUMNS


class Weights:
    """All weights of a program on the device, uploaded once, for one executor or more: freed by the
    `close` of the last."""

    def __init__(
        self,
        device: Device,
        tensors: Iterable[Tensor],
        data: Mapping[str, TensorData],
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._device = device
        self._users = 1
        self._parts: dict[str, tuple[WeightPart, ...]] = {}
        self._vectors: dict[str, BufferRange] = {}
        unique = {tensor.name: tensor for tensor in tensors}
        self._tensors = {name: (t.dtype, t.shape) for name, t in unique.items()}
        self.nbytes = sum(FORMATS[t.dtype].nbytes(t.shape) for t in unique.values())
        pieces = (part_bytes(tensor, device.info) for tensor in unique.values())
        self._arena = FixedArena(device, [size for each in pieces for size in each])
        done, whole = 0, max(1, self.nbytes)
        try:
            for name in unique:
                source = data[name]  # one after the other: they may be converted when they are read
                self._upload(name, source)
                if is_mapped(source.data):
                    drop_pages(source.data)  # the device has them now
                done += source.nbytes
                if progress:
                    progress(done / whole)
        except BaseException:
            self.close()
            raise

    def shared(self) -> Weights:
        """Return the weights for one more executor."""
        self._users += 1
        return self

    def has(self, tensors: Iterable[Tensor]) -> bool:
        """Return True if all of these tensors are here, with the same type and shape."""
        return all(self._tensors.get(t.name) == (t.dtype, t.shape) for t in tensors)

    def matrix(self, name: str) -> tuple[WeightPart, ...]:
        return self._parts[name]

    def stack(self, names: Sequence[str]) -> WeightPart | None:
        """Return matrices of one format and width as one with all their rows; None unless they are
        adjacent."""
        parts = [self._parts[name] for name in names]
        if any(len(each) > 1 for each in parts):
            return None
        whole: WeightPart | None = parts[0][0]
        for (part,) in parts[1:]:
            whole = whole and _joined(whole, part)
        limit = self._device.info.max_storage_buffer_range
        if whole is None or whole.place[2] > limit or whole.rows > MOST_PART_ROWS:
            return None
        return whole

    def vector(self, name: str) -> BufferRange:
        """Return the range of a one-dimensional weight, float32."""
        return self._vectors[name]

    def close(self) -> None:
        self._users -= 1
        if not self._users:
            self._arena.close()

    def _upload(self, name: str, source: TensorData) -> None:
        if len(source.shape) == 1:
            buffer, at, size = self._arena.reserve(4 * source.shape[0])
            buffer.upload(source.dequantize(), at)
            self._vectors[name] = (buffer, at, size)
            return
        self._parts[name] = tuple(
            self._upload_part(source, first, rows)
            for first, rows in _cuts(source, self._device.info)
        )

    def _upload_part(self, source: TensorData, first: int, rows: int) -> WeightPart:
        columns = source.shape[1]
        place = self._arena.reserve(matrix_bytes(source.dtype, rows, columns))
        buffer, start, _ = place
        unit = _unit_rows(source.dtype)
        step = max(1, UPLOAD_BYTES // source.format.nbytes((unit, columns))) * unit
        for at in range(0, rows, step):
            count = min(step, rows - at)
            begin = source.format.nbytes((first + at, columns))
            end = source.format.nbytes((first + at + count, columns))
            piece = as_read(source.dtype, source.data[begin:end], count, columns)
            buffer.upload(piece, start + matrix_bytes(source.dtype, at, columns))
        return WeightPart(first, rows, place)


def first_rows(parts: Iterable[WeightPart], count: int) -> list[WeightPart]:
    """Return the parts as far as they have some of the weight's first rows."""
    return [replace(p, rows=min(p.rows, count - p.first)) for p in parts if p.first < count]


def part_bytes(source: WeightSpec, info: DeviceInfo) -> list[int]:
    """Return the bytes of a weight's parts on a device."""
    if len(source.shape) == 1:
        return [4 * source.shape[0]]
    return [matrix_bytes(source.dtype, rows, source.shape[1]) for _, rows in _cuts(source, info)]


def _cuts(source: WeightSpec, info: DeviceInfo) -> list[tuple[int, int]]:
    """Return (first, rows) of the parts that the device can bind whole."""
    rows, columns = source.shape
    limit = min(info.max_storage_buffer_range, MOST_PART_BYTES)
    unit = _unit_rows(source.dtype)
    unit_bytes = matrix_bytes(source.dtype, unit, columns)
    if unit_bytes > limit:
        raise DeviceError(
            f"tensor {source.name}: {'a row' if unit == 1 else f'{unit} rows'} of {unit_bytes} "
            f"bytes, more than the {limit} bytes that {info.name} can bind."
        )
    step = min(limit // unit_bytes * unit, MOST_PART_ROWS)
    return [(first, min(step, rows - first)) for first in range(0, rows, step)]


def _joined(upper: WeightPart, lower: WeightPart) -> WeightPart | None:
    """Return two parts as one, if the lower's rows begin where the upper's end."""
    if upper.rows % TILE_ROWS:  # a tile's last rows would be padding
        return None
    place = _end_to_end(upper.place, lower.place)
    return place and WeightPart(upper.first, upper.rows + lower.rows, place)


def _end_to_end(a: BufferRange, b: BufferRange) -> BufferRange | None:
    return (a[0], a[1], a[2] + b[2]) if a[0] is b[0] and a[1] + a[2] == b[1] else None


def _unit_rows(dtype: str) -> int:
    """Return how many rows are stored together and cannot be cut."""
    return FORMATS[FORMATS[dtype].multiplied].tile_rows
