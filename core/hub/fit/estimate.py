"""The estimate: the bytes of each part, in the host's memory and in the device's heap.

An executor's allocations for a program are counted by the functions with which it computes them,
without making one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from llm_lite.core.exec.accelerator import Accelerator, cut_of
from llm_lite.core.exec.parts import experts_apart, held, most_crossing
from llm_lite.core.hub.fit.description import LoadedTensor, ModelDescription
from llm_lite.core.hub.fit.machine import Machine, program_bytes
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import Fit, MemoryPart
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.expert_layers import EXPERT_SWITCHES, expert_layers, expert_weights
from llm_lite.core.plan.plan import Kind, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.traffic import active_bytes, token_read_bytes
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.modes import aligned
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo


# Bytes that a page of a mapped file brings with it: 64 KiB on Linux as it was, 0.7 to 1.3 MiB
# measured on 6.18, whose page cache has larger pieces.
_AROUND = 1 << 20
# States that maps and views need, by what their names begin with
_KEPT_TO_SEE = ("q_ring.", "experts_ring.", "shares_ring.", HEAD_GAINS, EXPERT_SWITCHES)
_ROWS_HELD = 64  # rows of a table behind which the C++ executor lets it go, beside those of a step


class ExecutorMemory(Struct, frozen=True):
    """The bytes that an executor holds while it runs, and the most that memory holds of weights
    while they are loaded, besides those of the device."""

    weights: int
    device_weights: int
    cache: int
    maps: int  # kept queries, choices of experts, and gains
    scratch: int
    host_scratch: int  # beside a device
    loading: int  # of the host's, weights only


class Planned(Struct, frozen=True):
    """A model in a mode, its program built, nothing loaded."""

    description: ModelDescription
    options: EngineOptions  # the mode, and what the cache keeps
    build: BuildOptions
    loaded: dict[str, LoadedTensor]
    program: Program
    beside: tuple[Program, ...] = ()  # of the same weights: an encoder-decoder's encoder, a beam
    accelerator: Accelerator | None = None  # that runs what it takes beside C++
    writes: bool = True  # tokens, one after the other; an encoder does not

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return all programs that run, the decoder's first."""
        return (self.program, *self.beside)

    @property
    def has_experts(self) -> bool:
        return bool(expert_layers(self.program.plans[0]))

    @property
    def experts(self) -> Literal["", "memory", "cpu", "file"]:
        """Return where the experts of a mixture are, once that is settled; "" of a dense model."""
        place = self.options.experts
        return place if self.has_experts and place != "auto" else ""

    @property
    def in_file(self) -> frozenset[str]:
        """Return the names of the experts that are read where they lie in blocks."""
        if self.options.experts != "file":
            return frozenset()
        stay = {name for name, one in self.loaded.items() if not one.made and _tile_bytes(one)}
        return expert_weights(self.program) & stay


def planned(
    description: ModelDescription,
    options: EngineOptions,
    build: BuildOptions,
    beside: Callable[[Model], tuple[Program, ...]] = lambda model: (),
) -> Planned:
    """Plan a model. `beside`: the programs that run besides its own. FileError, UnsupportedError if
    this build does not run such a model."""
    on_disk = description.model().on_disk
    loaded = description.loaded(options.mode, on_disk)
    specs = {name: one.spec for name, one in loaded.items()}
    model = read_model(description.metadata, specs, description.path)
    return Planned(
        description,
        options,
        build,
        loaded,
        model.build(build),
        beside(model),
        writes=not model.embeds,
    )


def estimate(plan: Planned, machine: Machine, gb_s: float | None = None) -> Fit:
    """Return the most memory that the model takes while it is loaded and when its context is full.

    Weights count as they are resident: mapped files with the pages that are read, copies in another
    format, rows that became tiles. What loading takes beyond that for a moment counts among the
    weights. Prefixes of earlier conversations, which are dropped first, do not count. `gb_s`: what
    memory was measured to read.
    """
    memory = _executor_memory(plan, machine)
    if not plan.writes:  # what an encoder keeps of a text is gone with the next one
        memory = replace(memory, scratch=memory.scratch + memory.cache, cache=0)
    parts = _parts(plan, machine, memory)
    heap = sum(part.device for part in parts)
    if machine.is_unified:
        parts = [replace(part, host=part.host + part.device, device=0) for part in parts]
    total = sum(part.host for part in parts)
    # Loading is over before the program has all that it takes.
    beyond = max(0, memory.loading + parts[-1].host - total)
    parts[0] = replace(parts[0], host=parts[0].host + beyond)
    free = _frees(machine, sum(part.host for part in parts), heap)
    return Fit(
        plan.options.mode,
        plan.program.context,
        "cpu" if machine.device is None else "vulkan",
        tuple(parts),
        *free,
        speed=speed_of(plan.program, gb_s),
        active_bytes=active_bytes(plan.program.plans[0]),
        in_file=sum(plan.loaded[name].stored_bytes for name in plan.in_file),
        writes=plan.writes,
    )


def left_by(plan: Planned, machine: Machine) -> Machine:
    """Return what a loaded model, its cache full, leaves to another one that runs at the same
    time."""
    parts = _parts(plan, machine, _executor_memory(plan, machine))
    heap = sum(part.device for part in parts)
    taken = sum(part.host for part in parts) + (heap if machine.is_unified else 0)
    free = machine.host_free
    return replace(
        machine,
        host_free=None if free is None else max(0, free - taken),
        heap_taken=machine.heap_taken + heap,
    )


def speed_of(program: Program, gb_s: float | None) -> float | None:
    """Return tokens a second at half the context, if reading memory were all that decoding
    takes."""
    if gb_s is None:
        return None
    return gb_s * 1e9 / token_read_bytes(program.plans[0], program.context // 2)


def _parts(plan: Planned, machine: Machine, memory: ExecutorMemory) -> list[MemoryPart]:
    """Return the parts of memory in the host and in the device's heap, whether these are one memory
    or two; the program's part is the last one."""
    device = machine.device
    program = program_bytes(
        plan.program.vocabulary, plan.description.merges, device, started=machine.started
    )
    parts = [
        MemoryPart("weights", memory.weights, memory.device_weights),
        MemoryPart("cache", *_placed(memory.cache, device is not None)),
        MemoryPart("scratch", *_placed(memory.scratch, device is not None)),
        MemoryPart("maps", *_placed(memory.maps, device is not None)),
        MemoryPart("program", program, 0),
    ]
    parts[2] = replace(parts[2], host=parts[2].host + memory.host_scratch)
    return parts


def _executor_memory(plan: Planned, machine: Machine) -> ExecutorMemory:
    read = plan.description.read_at_opening
    stored = sum(one.stored_bytes for one in plan.loaded.values() if not one.table)
    if read and machine.host_free is not None and stored > machine.host_free // 2:
        read = False  # its pages are dropped as it is read (verification.worth_releasing)
    if machine.device is None:
        memory = cpu_memory(plan.programs, plan.loaded, read, plan.options.threads, plan.in_file)
        own = _accelerator_bytes(plan)
        return replace(memory, weights=memory.weights + own, loading=memory.loading + own)
    apart = _apart(plan) if plan.experts in ("cpu", "file") else {}
    rest = {name: one for name, one in plan.loaded.items() if name not in apart}
    memory = vulkan_memory(plan.programs, rest, read, machine.device)
    return _with_partner(memory, plan, apart, read) if apart else memory


def _accelerator_bytes(plan: Planned) -> int:
    """Return the bytes of weights in an accelerator's own layout."""
    if plan.accelerator is None:
        return 0
    size = 0
    for program in plan.programs:  # each has a runner of its own
        own = held(program, cut_of(plan.accelerator), apart=False)
        weights = {t.name: t for t in own if t.kind is Kind.WEIGHT}
        size += sum(map(plan.accelerator.weight_bytes, weights.values()))
    return size


def _apart(plan: Planned) -> dict[str, LoadedTensor]:
    """Return the weights that the C++ executor has beside a device."""
    own = {t.name for t in held(plan.program, experts_apart, apart=True)}
    return {name: one for name, one in plan.loaded.items() if name in own}


def _with_partner(
    memory: ExecutorMemory, plan: Planned, apart: Mapping[str, LoadedTensor], read: bool
) -> ExecutorMemory:
    """Add the C++ executor that computes experts beside a device."""
    beside = cpu_memory(plan.programs, apart, read, plan.options.threads, plan.in_file)
    crossing = sum(most_crossing(one, experts_apart) for one in plan.programs)
    return replace(
        memory,
        weights=memory.weights + beside.weights,
        host_scratch=memory.host_scratch + beside.scratch + crossing,
        loading=memory.loading + beside.loading,
    )


def _placed(size: int, on_device: bool) -> tuple[int, int]:
    return (0, size) if on_device else (size, 0)


def _frees(machine: Machine, host: int, heap: int) -> tuple[int | None, int | None]:
    """Return the free bytes of the host and of the device's heap."""
    if machine.device is None:
        return machine.host_free, None
    limit = max(0, machine.device.memory_bytes - machine.heap_taken)
    if not machine.is_unified:
        return machine.host_free, limit
    most = limit + host - heap  # one memory: the heap is a part of it
    return (most if machine.host_free is None else min(machine.host_free, most)), None


def cpu_memory(
    programs: Sequence[Program],
    loaded: Mapping[str, LoadedTensor],
    read: bool,
    threads: int = 0,
    in_file: frozenset[str] = frozenset(),
) -> ExecutorMemory:
    """Return the memory of programs that share their weights. `read`: True if opening brought the
    whole file into memory. threads=0: one a core; RequestError if they are too many. Of experts
    `in_file`, those that a token reads count: the system takes the others' pages when it wants
    them."""
    used = set(_in_order(programs))
    tables = {name for name, one in loaded.items() if one.table}
    made = _made_bytes(loaded)
    # Rows of blocks become tiles, and the pages that they were made of are dropped.
    tiled = {n: _tile_bytes(one) for n, one in loaded.items() if n in used - tables - in_file}
    held = _chosen_bytes(programs[0], loaded, in_file)
    for name, one in loaded.items():
        if one.table:
            held += 0 if one.made else _rows_of_table(one, programs)
        elif (
            not one.made and not tiled.get(name) and name not in in_file and (read or name in used)
        ):
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

    names = [name for name in _in_order(programs) if name in loaded]
    used = [loaded[name].spec for name in names if not loaded[name].table]
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


def _chosen_bytes(
    program: Program, loaded: Mapping[str, LoadedTensor], names: frozenset[str]
) -> int:
    """Return the bytes of the experts that a token chooses in these weights."""
    plan = program.plans[0]
    share = max((one.chosen / one.experts for one in expert_layers(plan)), default=0.0)
    return round(share * sum(loaded[name].stored_bytes for name in names))


def _rows_of_table(one: LoadedTensor, programs: Sequence[Program]) -> int:
    largest = max(program.max_tokens for program in programs)
    return min(one.stored_bytes, (_ROWS_HELD + largest) * _AROUND)


def _states(program: Program) -> dict[str, Tensor]:
    return {t.name: t for plan in program.plans for t in plan.tensors if t.kind is Kind.STATE}


def _state_bytes(program: Program) -> int:
    return sum(t.shape[0] * tensor_row_bytes(t) for t in _states(program).values())


def _map_bytes(program: Program) -> int:
    states = _states(program)
    kept = [t for name, t in states.items() if name.startswith(_KEPT_TO_SEE)]
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
