"""The memory of this machine that a model may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.memory import available_bytes, spared

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo


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
