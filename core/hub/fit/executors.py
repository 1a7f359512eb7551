"""The allocations of an executor for a program, by the functions with which it computes them,
without making one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.hub.fit.description import LoadedTensor
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.plan import Kind, Program, Tensor, tensor_row_bytes
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.modes import aligned

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

# Bytes that a page of a mapped file brings with it: 64 KiB on Linux as it was, 0.7 to 1.3 MiB
# measured on 6.18, whose page cache has larger pieces.
_AROUND = 1 << 20
_ROWS_HELD = 64  # rows of a table behind which the C++ executor lets it go, beside those of a step


class ExecutorMemory(Struct, frozen=True):
    """The bytes that an executor holds while it runs, and the most that memory holds of weights
    while they are loaded, besides those of the device."""

    weights: int
    device_weights: int
    cache: int
    maps: int  # kept queries and gains of heads
    scratch: int
    host_scratch: int  # beside a device
    loading: int  # of the host's, weights only


def cpu_memory(
    programs: Sequence[Program],
    loaded: Mapping[str, LoadedTensor],
    read: bool,
    threads: int = 0,
) -> ExecutorMemory:
    """Return the memory of programs that share their weights. `read`: True if opening brought the
    whole file into memory. threads=0: one a core; RequestError if they are too many."""
    used = set(_in_order(programs))
    tables = {name for name, one in loaded.items() if one.table}
    made = _made_bytes(loaded)
    # Rows of blocks become tiles, and the pages that they were made of are dropped.
    tiled = {n: _tile_bytes(one) for n, one in loaded.items() if n in used - tables}
    held = 0
    for name, one in loaded.items():
        if one.table:
            held += 0 if one.made else _rows_of_table(one, programs)
        elif not one.made and not tiled.get(name) and (read or name in used):
            held += one.stored_bytes
    tiles = sum(aligned(size) for size in tiled.values())
    maps = sum(map(_map_bytes, programs))
    return ExecutorMemory(
        weights=made + tiles + held,
        device_weights=0,
        cache=sum(map(_state_bytes, programs)) - maps,
        maps=maps,
        scratch=sum(_cpu_scratch(one, threads) for one in programs),
        host_scratch=0,
        loading=max(_most_while_made(loaded, read), _most_while_tiled(loaded, tiled, made, read)),
    )


def vulkan_memory(
    programs: Sequence[Program], loaded: Mapping[str, LoadedTensor], read: bool, info: DeviceInfo
) -> ExecutorMemory:
    """Return the memory as `cpu_memory` does. DeviceError for a matrix whose single rows are too
    large to be bound."""
    from llm_lite.core.exec.vulkan.allocations import device_allocations
    from llm_lite.core.gpu.memory import STAGING_BYTES

    used = [loaded[name].spec for name in _in_order(programs) if not loaded[name].table]
    each = [device_allocations(one, used, info) for one in programs]
    host = sum(one.host for one in each) - (len(each) - 1) * STAGING_BYTES  # one for the device
    kept = [one for one in loaded.values() if one.table]
    tables = sum(
        aligned(one.spec.nbytes) if one.made else _rows_of_table(one, programs) for one in kept
    )
    cache = sum(_state_bytes(one) - _map_bytes(one) for one in programs)
    shared = info.kind != "discrete"
    return ExecutorMemory(
        weights=tables,
        device_weights=each[0].weights,
        cache=cache,
        maps=sum(one.states for one in each) - cache,
        scratch=sum(one.scratch for one in each),
        host_scratch=host,
        loading=tables + _most_while_uploaded(loaded, read, shared) + host,
    )


def _cpu_scratch(program: Program, threads: int) -> int:
    """Return the bytes of values between ops, and of threads: digits of a whole prompt, say, for
    each thread."""
    from llm_lite.core.exec.cpu.plan_rows import thread_memory
    from llm_lite.core.processor import chosen_threads

    own = thread_memory(program)
    values = max(plan.scratch_bytes for plan in program.plans)
    return values + chosen_threads(threads) * own.each + own.shared


def _in_order(programs: Sequence[Program]) -> list[str]:
    """Return the names of weights in the order of their first use in the plans."""
    tensors = [tensor for one in programs for plan in one.plans for tensor in plan.tensors]
    return list(dict.fromkeys(t.name for t in tensors if t.kind in (Kind.WEIGHT, Kind.TABLE)))


def _made_bytes(loaded: Mapping[str, LoadedTensor]) -> int:
    return sum(aligned(one.spec.nbytes) for one in loaded.values() if one.made)


def _tile_bytes(one: LoadedTensor) -> int:
    form = FORMATS[one.spec.dtype]
    return FORMATS[form.tiles].nbytes(one.spec.shape) if form.layout == "rows" else 0


def _rows_of_table(one: LoadedTensor, programs: Sequence[Program]) -> int:
    largest = max(program.max_tokens for program in programs)
    return min(one.stored_bytes, (_ROWS_HELD + largest) * _AROUND)


def _states(program: Program) -> dict[str, Tensor]:
    return {t.name: t for plan in program.plans for t in plan.tensors if t.kind is Kind.STATE}


def _state_bytes(program: Program) -> int:
    return sum(t.shape[0] * tensor_row_bytes(t) for t in _states(program).values())


def _map_bytes(program: Program) -> int:
    states = _states(program)
    kept = [t for name, t in states.items() if name.startswith("q_ring.") or name == HEAD_GAINS]
    return sum(t.shape[0] * tensor_row_bytes(t) for t in kept)


def _most_while_made(loaded: Mapping[str, LoadedTensor], read: bool) -> int:
    """Return the peak while tensors are converted one after the other: what is in memory of the
    file, and what was made."""
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
    """Return the peak while matrices go to the device one after the other, converted or as they
    are; `shared`: the device's memory is the host's."""
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
    """Return the peak while rows become tiles."""
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
