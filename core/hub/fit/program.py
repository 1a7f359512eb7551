"""The memory that the program takes besides the model: measured, as `python -m tests.bench.fit`
prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

# Bytes resident on Linux, x86-64: Python 3.11, NumPy, our modules and the compiled kernels, before
# a model is opened.
PROGRAM = 40 << 20
LOADED = 22 << 20  # what is imported when a model runs, and what the allocator keeps of conversions
TOKEN = 90  # of one token of the vocabulary: its text, and its place in a table
MERGE = 450  # of one merge of two tokens
DRIVER = 40 << 20  # a Vulkan driver of hardware, with its pipelines
SOFTWARE_DRIVER = 105 << 20  # lavapipe: LLVM, and the code that it made of shaders


def program_bytes(vocabulary: int, merges: int, device: DeviceInfo | None, *, started: bool) -> int:
    """Return the bytes of the program. `started`: without what it has before a model is opened."""
    own = LOADED + TOKEN * vocabulary + MERGE * merges + (0 if started else PROGRAM)
    if device is None:
        return own
    return own + (SOFTWARE_DRIVER if device.kind == "software" else DRIVER)
