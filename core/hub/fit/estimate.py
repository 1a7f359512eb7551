"""The estimate: the bytes of each part, in the host's memory and in the device's heap."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from llm_lite.core.hub.fit.description import LoadedTensor, ModelDescription
from llm_lite.core.hub.fit.executors import ExecutorMemory, cpu_memory, vulkan_memory
from llm_lite.core.hub.fit.machine import Machine
from llm_lite.core.hub.fit.program import program_bytes
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import Fit, MemoryPart
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.records import replace


class Planned(Struct, frozen=True):
    """A model in a mode, its program built, nothing loaded."""

    description: ModelDescription
    options: EngineOptions  # the mode, and what the cache keeps
    build: BuildOptions
    loaded: dict[str, LoadedTensor]
    program: Program
    beside: tuple[Program, ...] = ()  # of the same weights: an encoder-decoder's encoder, a beam

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return all programs that run, the decoder's first."""
        return (self.program, *self.beside)


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
    return Planned(description, options, build, loaded, model.build(build), beside(model))


def estimate(plan: Planned, machine: Machine, gb_s: float | None = None) -> Fit:
    """Return the most memory that the model takes while it is loaded and when its context is full.

    Weights count as they are resident: mapped files with the pages that are read, copies in another
    format, rows that became tiles. What loading takes beyond that for a moment counts among the
    weights. Prefixes of earlier conversations, which are dropped first, do not count. `gb_s`: what
    memory was measured to read.
    """
    memory = _executor_memory(plan, machine)
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
        return cpu_memory(plan.programs, plan.loaded, read, plan.options.threads)
    return vulkan_memory(plan.programs, plan.loaded, read, machine.device)


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
