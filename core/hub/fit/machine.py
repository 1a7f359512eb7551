"""The memory of this machine that a model may have, and what the program takes besides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.memory import available_bytes, spared

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

# Measured, as `python -m tools.bench.fit` prints it.
# Bytes resident on Linux, x86-64: Python 3.11, NumPy, our modules and the compiled kernels, before
# a model is opened.
PROGRAM = 40 << 20
LOADED = 22 << 20  # what is imported when a model runs, and what the allocator keeps of conversions
TOKEN = 90  # of one token of the vocabulary: its text, and its place in a table
MERGE = 450  # of one merge of two tokens
DRIVER = 40 << 20  # a Vulkan driver of hardware, with its pipelines
SOFTWARE_DRIVER = 105 << 20  # lavapipe: LLVM, and the code that it made of shaders


class Machine(Struct, frozen=True):
    """The memory that a model may take besides what runs already, in bytes; None if it is not
    known.

    `device` is where it is to run, None for the processor. `started`: whether the program that will
    run it runs already, so that its own memory is no longer to be had.
    """

    host_free: int | None
    device: DeviceInfo | None = None
    started: bool = False
    heap_taken: int = 0  # of the device's heap, by a model that runs beside

    @property
    def is_unified(self) -> bool:
        """Return True if the device takes its memory from the host."""
        return self.device is not None and self.device.kind != "discrete"


def this_machine(device: DeviceInfo | None = None, *, started: bool = True) -> Machine:
    """Return the machine as it is now; a share of what is available is left alone."""
    free = available_bytes()
    return Machine(None if free is None else spared(free), device, started)


def program_bytes(vocabulary: int, merges: int, device: DeviceInfo | None, *, started: bool) -> int:
    """Return the bytes of the program. `started`: without what it has before a model is opened."""
    own = LOADED + TOKEN * vocabulary + MERGE * merges + (0 if started else PROGRAM)
    if device is None:
        return own
    return own + (SOFTWARE_DRIVER if device.kind == "software" else DRIVER)
