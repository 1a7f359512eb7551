"""What an executor allocates for a program: the sizes that it computes itself, with no executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_lite.core.hub.fit.description import LoadedTensor
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.cache_layers import cache_bytes
from llm_lite.core.plan.plan import Kind, Program, tensor_row_bytes
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.modes import aligned

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

# Bytes that a page of a mapped file brings with it: 64 KiB on Linux as it was, 0.7 to 1.3 MiB
# measured on 6.18, whose page cache has larger pieces.
_AROUND = 1 << 20
_ROWS_HELD = 64  # rows of a table behind which the C++ executor lets it go, beside those of a step


@dataclass(frozen=True, slots=True)
class ExecutorMemory:
    """Bytes that an executor holds while it runs, and the most that memory holds of weights while
    they are loaded, beside those of the device."""

    weights: int
    device_weights: int
    cache: int
    maps: int  # kept queries and gains of heads
    scratch: int
    host_scratch: int  # beside a device
    loading: int  # of the host's, weights only


def cpu_memory(program: Program, loaded: Mapping[str, LoadedTensor], read: bool) -> ExecutorMemory:
    """`read`: whether opening brought the whole file into memory."""
    used = _used(program)
    tables = {name for name, one in loaded.items() if one.table}
    made = _made_bytes(loaded)
    # Rows of blocks become tiles, and what they were made of is let go.
    tiled = {n: _tile_bytes(one) for n, one in loaded.items() if n in used - tables}
    held = 0
    for name, one in loaded.items():
        if one.table:
            held += 0 if one.made else _rows_of_table(one, program)
        elif not one.made and not tiled.get(name) and (read or name in used):
            held += one.stored_bytes
    tiles = sum(aligned(size) for size in tiled.values())
    return ExecutorMemory(
        weights=made + tiles + held,
        device_weights=0,
        cache=cache_bytes(program.plans[0]),
        maps=_map_bytes(program),
        scratch=max(plan.scratch_bytes for plan in program.plans),
        host_scratch=0,
        loading=max(_most_while_made(loaded, read), _most_while_tiled(loaded, tiled, made, read)),
    )


def vulkan_memory(
    program: Program, loaded: Mapping[str, LoadedTensor], read: bool, info: DeviceInfo
) -> ExecutorMemory:
    """DeviceError for a matrix of which no row can be bound."""
    from llm_lite.core.exec.vulkan.allocations import device_allocations

    used = [loaded[name].spec for name in _in_order(program) if not loaded[name].table]
    found = device_allocations(program, used, info)
    kept = [one for one in loaded.values() if one.table]
    tables = sum(
        aligned(one.spec.nbytes) if one.made else _rows_of_table(one, program) for one in kept
    )
    cache = cache_bytes(program.plans[0])
    shared = info.kind != "discrete"
    return ExecutorMemory(
        weights=tables,
        device_weights=found.weights,
        cache=cache,
        maps=found.states - cache,
        scratch=found.scratch,
        host_scratch=found.host,
        loading=tables + _most_while_uploaded(loaded, read, shared) + found.host,
    )


def _used(program: Program) -> set[str]:
    return set(_in_order(program))


def _in_order(program: Program) -> list[str]:
    """Weights of the plans, as they are first met."""
    tensors = [tensor for plan in program.plans for tensor in plan.tensors]
    return list(dict.fromkeys(t.name for t in tensors if t.kind in (Kind.WEIGHT, Kind.TABLE)))


def _made_bytes(loaded: Mapping[str, LoadedTensor]) -> int:
    return sum(aligned(one.spec.nbytes) for one in loaded.values() if one.made)


def _tile_bytes(one: LoadedTensor) -> int:
    form = FORMATS[one.spec.dtype]
    return FORMATS[form.tiles].nbytes(one.spec.shape) if form.layout == "rows" else 0


def _rows_of_table(one: LoadedTensor, program: Program) -> int:
    return min(one.stored_bytes, (_ROWS_HELD + program.max_tokens) * _AROUND)


def _map_bytes(program: Program) -> int:
    states = {t.name: t for plan in program.plans for t in plan.tensors if t.kind is Kind.STATE}
    kept = [t for name, t in states.items() if name.startswith("q_ring.") or name == HEAD_GAINS]
    return sum(t.shape[0] * tensor_row_bytes(t) for t in kept)


def _most_while_made(loaded: Mapping[str, LoadedTensor], read: bool) -> int:
    """While tensors are turned into others, one after the other: the file so far as it is in
    memory, and what was made."""
    mapped = sum(one.stored_bytes for one in loaded.values() if not one.table) if read else 0
    most = mapped
    for one in loaded.values():
        if not one.made:
            continue
        before = one.stored_bytes if read or one.table else 0
        mapped += aligned(one.spec.nbytes)
        most = max(most, mapped + (0 if read else one.stored_bytes))
        mapped -= 0 if one.table else before
    return most


def _most_while_uploaded(loaded: Mapping[str, LoadedTensor], read: bool, shared: bool) -> int:
    """While matrices go to the device one after the other, made or as they are; `shared`: the
    device's memory is the host's."""
    matrices = [one for one in loaded.values() if not one.table]
    now = most = sum(one.stored_bytes for one in matrices) if read else 0
    for one in matrices:
        size, stored = one.spec.nbytes, one.stored_bytes
        beside = (size if one.made else 0) + (0 if read else stored)
        now += size if shared else 0
        most = max(most, now + beside)
        now -= stored if read else 0
    return most


def _most_while_tiled(
    loaded: Mapping[str, LoadedTensor], tiled: Mapping[str, int], made: int, read: bool
) -> int:
    """While rows become tiles."""
    rest = [one for one in loaded.values() if not one.made and not one.table]
    now = made + (sum(one.stored_bytes for one in rest) if read else 0)
    most = now
    for name, size in tiled.items():
        if not size:
            continue
        now += aligned(size)
        most = max(most, now + (0 if read else loaded[name].stored_bytes))
        now -= loaded[name].stored_bytes if read else 0
    return most
