"""A conversation's cache as a file: what was computed once is mapped back later.

Layout: b"LLMLKV01", the header's length as a little-endian u64, the header in JSON, then the rows
of each tensor in the order of the header, and at the very end the CRC-32 of all in between as a
u32. Of a model with recurrent states there follow, behind the rows, how many positions lie before
each state as little-endian u64s, and the rows of each state, likewise.
The header says which model, weights and types made the rows; a file that says otherwise than what
runs now is not used. Nothing in it is trusted: sizes are checked before they are used.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError, FileError, RequestError
from llm_lite.core.files.json_text import found
from llm_lite.core.files.mapping import MappedFile, MappedFiles, mapped
from llm_lite.core.files.private import tighten
from llm_lite.core.files.writing import replaced
from llm_lite.core.kv_cache.contents import CacheRows, KvCache, Prefix
from llm_lite.core.kv_cache.provenance import PRECISIONS, CacheContents, Conditions, Gap
from llm_lite.core.kv_cache.states import RecurrentStates, State
from llm_lite.core.plain_text import shortened
from llm_lite.core.plan.plan import tensor_row_bytes
from llm_lite.core.records import replace

MAGIC = b"LLMLKV01"
MOST_HEADER = 64 << 20  # bytes
VERSION = 1
_START = struct.Struct("<8sQ")
_LENGTH = np.dtype("<u8")
_CHECKSUM = 4  # bytes


Unlike = Literal["model", "weights", "heads", "types", "context"]


class OtherCacheError(FileError):
    """Raised for a whole file that does not fit what runs now, which differs in `what`: it may be
    of use another time."""

    def __init__(self, path: object, problem: str, what: Unlike) -> None:
        super().__init__(path, problem)
        self.what = what


class Identity(Struct, frozen=True):
    """The values that must be the same for saved rows to be usable."""

    model: str  # a hash of the file's header, which has its tokenizer in it, and of its size
    conditions: Conditions  # of whatever precision


def save(
    path: Path, prefix: Prefix, identity: Identity, should_stop: Callable[[], bool] = lambda: False
) -> int:
    """Write the first positions that were made as `identity` says, and return the bytes written.

    RequestError where there is nothing to save, FileError where it cannot be written,
    CancelledError when stopped; what was at `path` then stays.
    """
    count = _savable(prefix, identity)
    header = json.dumps(_header(prefix, prefix.contents.first(count), identity)).encode()
    header += b" " * (-(len(header) + _START.size) % 64)  # rows begin aligned
    with replaced(path, private=True) as file:
        file.write(_START.pack(MAGIC, len(header)))
        file.write(header)
        size, checksum = _START.size + len(header), 0
        for part in _parts(prefix, count):
            if should_stop():
                raise CancelledError("the cache was not saved: something else had to be done")
            data = np.ascontiguousarray(part)
            checksum = zlib.crc32(data.data, checksum)
            size += file.write(data.data)
        return size + file.write(struct.pack("<I", checksum))


def _parts(prefix: Prefix, count: int) -> Iterator[NDArray[np.uint8]]:
    """Yield what a file has of the first positions, in its order."""
    for rows in prefix.rows.values():
        yield rows.data[: count - rows.first]
    if lengths := _states_within(prefix, count):
        yield np.array(lengths, _LENGTH).view(np.uint8)
    for length in lengths:
        yield from prefix.states[length].values()


def _states_within(prefix: Prefix, count: int) -> list[int]:
    """Return behind how many of the first positions there are states."""
    return sorted(behind for behind in prefix.states if behind <= count)


def _savable(prefix: Prefix, identity: Identity) -> int:
    """Return how many first positions were made alike, and as `identity` says, up to the last
    state where that is needed to go on."""
    made = prefix.contents.conditions
    whole = replace(identity.conditions, precision=made[0].precision) if made else None
    count = next((i for i, m in enumerate(made) if m != whole), len(made))
    if not count:
        raise RequestError("the cache is empty, or was made with other weights: nothing to save")
    if prefix.recurrent:
        count = max(_states_within(prefix, count), default=0)
        if not count:
            raise RequestError(
                "no recurrent state is held of what was made with these weights: nothing to save"
            )
    if count < len(made) and any(rows.first for rows in prefix.rows.values()):
        raise RequestError("the cache was made with different weights: it cannot be saved")
    return count


def _header(prefix: Prefix, contents: CacheContents, identity: Identity) -> dict[str, Any]:
    changes = identity.conditions.interventions
    count = len(contents.tokens)
    states = _states_within(prefix, count)
    of_states: dict[str, Any] = {}
    if states:
        shapes = [[name, *rows.shape] for name, rows in prefix.states[count].items()]
        of_states = {"states": len(states), "state_rows": shapes}
    return {
        "version": VERSION,
        "model": identity.model,
        "weights": identity.conditions.made_by,
        "gains": changes.gains,
        **({"shifts": changes.shifts} if changes.shifts else {}),
        "precision": contents.conditions[0].precision,
        "name": prefix.name,
        "tokens": contents.tokens,
        "gaps": [[gap.first, list(gap.tokens)] for gap in contents.gaps],
        "rows": [
            [name, rows.dtype, rows.first, count - rows.first, rows.data.shape[1]]
            for name, rows in prefix.rows.items()
        ],
        **of_states,
    }


def load(
    path: Path, identity: Identity, cache: KvCache, vocabulary: int, *, summed: bool = True
) -> Prefix:
    """Load a saved cache, its rows mapped from the file: `files_of` them says whether that is still
    the file whose checksum was right. Without `summed` neither the rows nor their checksum are
    read.

    OtherCacheError where it is of another model, other weights or types, FileError where it is
    damaged, or of other layers.
    """
    tighten(path)
    with mapped(path, "a saved cache", "open it again") as mapping:
        return _load(path, mapping, identity, cache, vocabulary, summed)


def files_of(prefix: Prefix) -> MappedFiles:
    """Return the file that the rows are mapped from; none for a cache in memory."""
    return MappedFiles.under(_parts(prefix, len(prefix.contents.tokens)))


def _load(
    path: Path,
    mapping: MappedFile,
    identity: Identity,
    cache: KvCache,
    vocabulary: int,
    summed: bool,
) -> Prefix:
    try:
        header, at = _read_header(path, mapping)
        _check_identity(path, header, identity)
        contents = _contents(path, header, identity, vocabulary)
    except ValueError as error:
        raise FileError(path, f"is no saved cache: {error}") from error
    memory = np.frombuffer(mapping, np.uint8)
    rows, end = _rows(path, header, memory, at, cache, len(contents.tokens))
    states, end = _states(path, header, memory, end, cache.states, len(contents.tokens))
    if len(memory) != end + _CHECKSUM:
        raise FileError(path, f"expected {end + _CHECKSUM} bytes, found {len(memory)}")
    if summed and zlib.crc32(memory[at:end].data) != int.from_bytes(
        memory[end:].tobytes(), "little"
    ):
        raise FileError(path, "is damaged: its checksum is another")
    recurrent = cache.states.slots > 0
    return Prefix(_text(header, "name"), contents, rows, recurrent=recurrent, states=states)


def _read_header(path: Path, mapping: MappedFile) -> tuple[dict[str, Any], int]:
    start, size = mapping.read(_START.size), len(mapping)
    if len(start) < _START.size or start[: len(MAGIC)] != MAGIC:
        raise FileError(path, "is no saved cache: it does not begin with LLMLKV01")
    length = _START.unpack(start)[1]
    if length > min(MOST_HEADER, size - _START.size):
        raise FileError(
            path, f"header: expected at most {size - _START.size} bytes, found {length}"
        )
    try:
        header = json.loads(mapping.read(length))
    except RecursionError as error:
        raise FileError(path, "header: too deeply nested") from error
    if not isinstance(header, dict) or header.get("version") != VERSION:
        raise FileError(path, f"header: expected version {VERSION}")
    return header, _START.size + length


def _check_identity(path: Path, header: Mapping[str, Any], identity: Identity) -> None:
    if header.get("model") != identity.model:
        raise OtherCacheError(path, "was saved with another model or tokenizer", "model")
    own, changes = identity.conditions.made_by, identity.conditions.interventions
    if header.get("weights") != own:
        other = found(header.get("weights"))
        raise OtherCacheError(path, f"weights: expected {found(own)}, found {other}", "weights")
    if header.get("gains") != [list(row) for row in changes.gains or ()]:
        raise OtherCacheError(path, "was saved with other weights of heads", "heads")
    if header.get("shifts", []) != [[layer, list(vector)] for layer, vector in changes.shifts]:
        raise OtherCacheError(path, "was saved while layers were shifted otherwise", "heads")


def _contents(
    path: Path, header: Mapping[str, Any], identity: Identity, vocabulary: int
) -> CacheContents:
    tokens = _tokens(path, header.get("tokens"), vocabulary)
    gaps = header.get("gaps")
    if not isinstance(gaps, list) or len(gaps) > len(tokens):
        raise FileError(path, "gaps: expected a list")
    gone, last = [], 0
    for gap in gaps:
        if not (isinstance(gap, list) and len(gap) == 2 and _is_count(gap[0])):
            raise FileError(path, "gaps: expected pairs of a number and tokens")
        lost = _tokens(path, gap[1], vocabulary)
        if not lost or gap[0] < last:
            raise FileError(path, "gaps: expected ascending and not empty")
        gone.append(Gap(gap[0], lost))
        last = gone[-1].last + 1
    precision = header.get("precision")
    if precision not in PRECISIONS:
        raise FileError(path, f"precision: expected one of {', '.join(PRECISIONS)}")
    made = (replace(identity.conditions, precision=precision),) * len(tokens)
    contents = CacheContents(tokens, made, tuple(gone))
    if any(position >= len(tokens) for position in contents.gap_positions()):
        raise FileError(path, "gaps: expected inside the tokens")
    return contents


def _tokens(path: Path, values: Any, vocabulary: int) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(_is_count(v) and v < vocabulary for v in values):
        raise FileError(path, f"tokens: expected numbers below {vocabulary}")
    return tuple(values)


def _rows(
    path: Path,
    header: Mapping[str, Any],
    memory: NDArray[np.uint8],
    at: int,
    cache: KvCache,
    count: int,
) -> tuple[dict[str, CacheRows], int]:
    """Return the rows of each tensor, and the offset behind the last of them."""
    tensors = {t.name: (layer, t) for layer in cache.stored for t in layer.tensors}
    listed, rows = header.get("rows"), {}
    if not isinstance(listed, list) or len(listed) != len(tensors):
        raise FileError(path, f"rows: expected {len(tensors)} tensors")
    for entry, (name, (layer, tensor)) in zip(listed, tensors.items(), strict=True):
        first = _first_row(entry, count if layer.window else 0)
        row = tensor_row_bytes(tensor)
        expected = [name, tensor.dtype, first, count - first, row]
        if entry != expected:
            problem = f"rows: expected {_shown(expected)}, found {_shown(entry)}"
            if isinstance(entry, list) and len(entry) == 5 and entry[1] != tensor.dtype:
                raise OtherCacheError(path, problem, "types")
            raise FileError(path, problem)
        data, at = _mapped_rows(path, name, memory, at, (count - first, row))
        rows[name] = CacheRows(first, data, tensor.dtype, tensor.block)
    return rows, at


def _states(
    path: Path,
    header: Mapping[str, Any],
    memory: NDArray[np.uint8],
    at: int,
    states: RecurrentStates,
    count: int,
) -> tuple[dict[int, State], int]:
    """Return the recurrent states by the positions before them, and the offset behind the last."""
    shapes = states.shapes if states.slots else {}
    listed, expected = header.get("state_rows", []), [[n, *shape] for n, shape in shapes.items()]
    if listed != expected:
        problem = f"state_rows: expected {json.dumps(expected)}, found {found(listed)}"
        raise FileError(path, problem)
    if not shapes:
        return {}, at
    number, by_length = header.get("states"), dict[int, State]()
    if type(number) is not int or not 0 < number <= count:
        raise FileError(path, f"states: expected 1 to {count}, found {found(number)}")
    data, at = _mapped_rows(path, "states", memory, at, (number, _LENGTH.itemsize))
    lengths = data.view(_LENGTH)[:, 0].tolist()
    if lengths[-1] != count or any(a >= b for a, b in pairwise([0, *lengths])):
        problem = f"states: expected numbers of tokens, ascending up to {count}"
        raise FileError(path, f"{problem}, found {shortened(', '.join(map(str, lengths)), 200)}")
    for length in lengths:
        state = dict[str, NDArray[np.uint8]]()
        for name, shape in shapes.items():
            state[name], at = _mapped_rows(path, name, memory, at, shape)
        by_length[length] = state
    return by_length, at


def _mapped_rows(
    path: Path, name: str, memory: NDArray[np.uint8], at: int, shape: tuple[int, int]
) -> tuple[NDArray[np.uint8], int]:
    """Return a part of the file as rows of bytes, and the offset behind it."""
    end = at + shape[0] * shape[1]
    if end + _CHECKSUM > len(memory):
        raise FileError(path, f"is truncated: {name} ends behind its {len(memory)} bytes")
    return memory[at:end].reshape(shape), end


def _shown(entry: Any) -> str:
    items = entry if isinstance(entry, list) and len(entry) == 5 else [entry]
    return ", ".join(map(found, items))


def _first_row(entry: Any, most: int) -> int:
    """Return the first position of a tensor's rows: 0 except in a ring."""
    first = entry[2] if isinstance(entry, list) and len(entry) == 5 else 0
    return int(first) if _is_count(first) and first <= most else 0


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _text(header: Mapping[str, Any], name: str) -> str:
    value = header.get(name)
    return value[:100] if isinstance(value, str) else ""
