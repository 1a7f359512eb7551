"""Weight modes: the formats that a model's matrices are converted to when it is loaded."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.quant import quantizer
from llm_lite.core.quant.registry import FORMATS, QuantFormat
from llm_lite.core.quant.tensor import TensorData

AS_STORED = "as-stored"
_FORMAT_OF_MODE = {"fp32": "f32", "fp16": "f16", "int8": "int8", "int4": "int4"}
# Of a table single rows are read: its blocks lie row by row, not in tiles of rows.
_FORMAT_OF_TABLE = {**_FORMAT_OF_MODE, "int8": "q8_0", "int4": "q4_1"}
MODES = (AS_STORED, *_FORMAT_OF_MODE)
# Begins the names of tables that no checkpoint has: biases by distance, sinusoidal positions.
MADE = "made."
# What a tensor becomes as it is stored, where kernels do not read its format.
_INSTEAD, _INSTEAD_OF_TABLE = "int8", "q8_0"
# Weights so small may be below the scales of blocks, and then lose more than so much of the sum of
# their squares; those that are not so small lose about a hundredth at int4.
_SMALL, _MOST_NOISE = 1e-4, 0.06
_FEW_BITS = 8  # a weight: with as many or more a second rounding loses next to nothing
_ALIGNMENT = 64  # bytes, a cache line
_CHUNK_VALUES = 1 << 21  # 8 MiB of float32 at a time
_CHUNK_ROWS = 16  # a multiple of the rows of a tile


class WeightOfFormat(Protocol):
    """The interface of a weight to modes; no data."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def format(self) -> QuantFormat: ...


W = TypeVar("W", bound=WeightOfFormat)


# Matrices whose few weights decide much: at int4 those of values lose three times as much as
# any others of their size. SPARE_BITS is what their better format may add, in the mean.
_SENSITIVE = "attn_v.weight"
SPARE_BITS = 0.1
# A mixture's routers, which are small: who is chosen hangs on their last bits.
_ROUTERS = "ffn_gate_inp.weight"
NONE_PROMOTED: frozenset[str] = frozenset()


def promoted(tensors: Iterable[WeightOfFormat], mode: str) -> frozenset[str]:
    """Return the names of a model's matrices that are int8 in mode int4: all sensitive ones, or
    none if they are too many."""
    if mode != "int4":
        return NONE_PROMOTED
    sizes = {t.name: math.prod(t.shape) for t in tensors if _fills_blocks(t, "int4")}
    names = frozenset(name for name in sizes if name.endswith(_SENSITIVE))
    more = FORMATS["int8"].bits_per_weight - FORMATS["int4"].bits_per_weight
    added = more * sum(sizes[name] for name in names)
    return names if added <= SPARE_BITS * sum(sizes.values()) else NONE_PROMOTED


def _fills_blocks(tensor: WeightOfFormat, dtype: str) -> bool:
    return len(tensor.shape) > 1 and tensor.shape[-1] % FORMATS[dtype].block_size == 0


def table_dtype(tensor: WeightOfFormat, mode: str) -> str:
    """Return the written format of a weight that stays on disk, where its rows are read."""
    dtype = _FORMAT_OF_TABLE[mode]
    return dtype if _fills_blocks(tensor, dtype) else "f16"


def loaded_table_dtype(tensor: WeightOfFormat) -> str:
    """Return the format of a weight whose rows are read on disk, in every mode."""
    return tensor.dtype if tensor.format.native else _INSTEAD_OF_TABLE


def target_dtype(
    tensor: WeightOfFormat, mode: str, promoted: frozenset[str] = NONE_PROMOTED
) -> str:
    """Return the format of a tensor in a mode, given the names of the model's `promoted` ones.

    Vectors (norms, biases) and tables that are made of the fields are float32 in every mode, which
    is exact. Rows that do not fill whole blocks stay float16. As stored, formats that are not
    native become int8. Raises RequestError for an unknown mode.
    """
    if mode not in MODES:
        raise RequestError(f"unknown weight mode {mode!r}, expected one of {', '.join(MODES)}")
    if len(tensor.shape) == 1 or tensor.name.startswith(MADE):
        return "f32"
    if tensor.name in promoted:
        return "int8"
    if tensor.name.endswith(_ROUTERS) and mode != AS_STORED:
        return "f32" if mode == "fp32" else "f16"
    as_stored = tensor.dtype if tensor.format.native else _INSTEAD
    dtype = _FORMAT_OF_MODE.get(mode, as_stored)
    return dtype if _fills_blocks(tensor, dtype) else "f16"


Room = Callable[[int], NDArray[np.uint8]]  # so many bytes


def _own_room(nbytes: int) -> NDArray[np.uint8]:
    return np.empty(nbytes, np.uint8)


def common_room(
    tensors: Iterable[TensorData],
    mode: str,
    promoted: frozenset[str] = NONE_PROMOTED,
    tables: Iterable[TensorData] = (),
) -> Room:
    """Return room for all that `convert` and `convert_table` will change."""
    matrices = [made_bytes(tensor, target_dtype(tensor, mode, promoted)) for tensor in tensors]
    return room_for([*matrices, *(made_bytes(t, loaded_table_dtype(t)) for t in tables)])


def room_for(sizes: Iterable[int]) -> Room:
    """Return memory for `sizes` bytes each, in large pages where the system has them: a stream
    through small ones is a fifth slower.

    They go back to the system with the last tensor; the allocator keeps some of what it is given.
    MemoryError where there is no room.
    """
    memory = _pages(sum(map(aligned, sizes)))
    taken = 0

    def room(nbytes: int) -> NDArray[np.uint8]:
        nonlocal taken
        begin, taken = taken, taken + aligned(nbytes)
        return memory[begin : begin + nbytes]

    return room


def _pages(nbytes: int) -> NDArray[np.uint8]:
    if nbytes == 0:
        return np.empty(0, np.uint8)
    # Only where memory is private may the system use large pages without being set up for it.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    try:
        pages = mmap.mmap(-1, nbytes, **private)
    except OSError as error:
        raise MemoryError(str(error)) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def made_bytes(tensor: WeightOfFormat, dtype: str) -> int:
    """Return the bytes of a tensor in another format; 0 if that is its own."""
    return 0 if dtype == tensor.dtype else _matrix_bytes(tensor, dtype)


def _matrix_bytes(tensor: WeightOfFormat, dtype: str) -> int:
    return FORMATS[dtype].nbytes((math.prod(tensor.shape[:-1]), tensor.shape[-1]))


def aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def mode_bytes(tensors: Iterable[WeightOfFormat], mode: str) -> int:
    """Return the bytes that the tensors take in a mode, without converting them."""
    found = tuple(tensors)
    names = promoted(found, mode)
    return sum(_matrix_bytes(t, target_dtype(t, mode, names)) for t in found)


def rounds_again(tensors: Iterable[W], mode: str) -> list[tuple[W, str]]:
    """Return the matrices that a mode rounds to few bits though they have about as few in the file,
    and the formats that they get: the errors of both roundings add up."""
    found = [tensor for tensor in tensors if len(tensor.shape) > 1]
    finer, again = promoted(found, mode), []
    for tensor in found:
        dtype = target_dtype(tensor, mode, finer)
        bits, stored = FORMATS[dtype].bits_per_weight, tensor.format.bits_per_weight
        if dtype != tensor.dtype and bits < _FEW_BITS and stored <= bits + 1:
            again.append((tensor, dtype))
    return again


def rounded_again(tensors: Iterable[WeightOfFormat], mode: str) -> float:
    """Return the share of the weights of matrices that a mode rounds once more."""
    found = [tensor for tensor in tensors if len(tensor.shape) > 1]
    whole = sum(math.prod(tensor.shape) for tensor in found)
    again = sum(math.prod(tensor.shape) for tensor, _ in rounds_again(found, mode))
    return again / whole if whole else 0.0


def again_sentence(mode: str, share: float, error: float = 0.0) -> str:
    """Return what is lost where a mode rounds this share of the weights once more; `error` as
    `again_error` measures it, 0 where it is not known."""
    if not error:
        return (
            f"{share:.0%} of the weights have about as few bits in the file as {mode} has: to "
            "round them once more loses as much again, and answers get worse; as-stored keeps them "
            "as they are"
        )
    return (
        f"{share:.0%} of the weights have about as few bits in the file as {mode} has: rounding "
        f"them once more changes them by {error:.1%} (root mean square, by a sample of their "
        "rows), and answers get worse; as-stored keeps them as they are"
    )


def convert(
    tensor: TensorData,
    mode: str,
    room: Room = _own_room,
    promoted: frozenset[str] = NONE_PROMOTED,
) -> TensorData:
    """Return the tensor in the format of a mode, in `room`; itself if nothing changes.

    Raises RequestError for an unknown mode, UnsupportedError for values that overflow float16.
    """
    return _in_format(tensor, target_dtype(tensor, mode, promoted), room)


def convert_table(tensor: TensorData, room: Room = _own_room) -> TensorData:
    """Return a weight whose rows are read, in a format that kernels read; itself if that is its
    own. Raises UnsupportedError for values that overflow float16."""
    return _in_format(tensor, loaded_table_dtype(tensor), room)


def _in_format(tensor: TensorData, dtype: str, room: Room) -> TensorData:
    """Convert the tensor in pieces, so that besides the result only a few MiB are in use."""
    if dtype == tensor.dtype:
        return tensor
    target, columns = FORMATS[dtype], tensor.shape[-1]
    data = room(made_bytes(tensor, dtype))
    end, largest = 0, 0.0
    for decoded in pieces(tensor):
        begin, end = end, end + target.nbytes((len(decoded), columns))
        data[begin:end] = encode(tensor, target, decoded)
        largest = max(largest, float(decoded.max()), -float(decoded.min()))
    data.flags.writeable = False
    made = TensorData(tensor.name, dtype, tensor.shape, data)
    if 0 < largest < _SMALL:
        both = zip(pieces(tensor), pieces(made), strict=True)
        squares = [(_squares(before), _squares(before - after)) for before, after in both]
        signal, noise = np.sum(squares, axis=0).tolist()
        check_kept(tensor, target, largest, signal, noise)
    return made


def _squares(values: NDArray[np.float32]) -> float:
    flat = values.astype(np.float64).ravel()
    return float(np.dot(flat, flat))


def check_kept(
    tensor: TensorData, target: QuantFormat, largest: float, signal: float, noise: float
) -> None:
    """Raise UnsupportedError if a format holds little of a tensor because its values, `largest` at
    most, are small for it. signal, noise: sums of squares, of the values and of their errors."""
    if 0 < largest < _SMALL and noise > _MOST_NOISE * signal:
        raise UnsupportedError(
            f"tensor {tensor.name!r} has no value beyond {largest:.3g}: {target.name} cannot hold "
            "such small ones, and they would vanish; choose mode fp32"
            + (f" or {AS_STORED}" if tensor.format.native else "")
        )


def pieces(tensor: TensorData) -> Iterator[NDArray[np.float32]]:
    """Yield the rows [n, K] in order as float32, whole tiles at a time, about 8 MiB each."""
    source, columns = tensor.format, tensor.shape[-1]
    rows = math.prod(tensor.shape[:-1])
    step = max(1, _CHUNK_VALUES // columns // _CHUNK_ROWS) * _CHUNK_ROWS
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        piece = tensor.data[source.nbytes((start, columns)) : source.nbytes((stop, columns))]
        yield source.dequantize(piece, (stop - start, columns))


Encode = Callable[[NDArray[np.float32]], NDArray[np.uint8]]  # [n, K] -> bytes


def encode(
    tensor: TensorData, target: QuantFormat, values: NDArray[np.float32], by: Encode | None = None
) -> NDArray[np.uint8]:
    """Return the bytes of rows of a tensor. UnsupportedError if finite values overflow."""
    encoded = quantizer.encode(target.name, values) if by is None else by(values)
    if target.non_finite(encoded) and np.isfinite(values).all():
        raise UnsupportedError(
            f"tensor {tensor.name!r} reaches {np.abs(values).max():.3g}, "
            f"beyond what {target.name} can hold; choose mode fp32"
            + (f" or {AS_STORED}" if tensor.format.native else "")
        )
    return encoded
