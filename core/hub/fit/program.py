"""What the program takes beside the model: measured, as `python -m tests.bench.fit` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

# Bytes resident on Linux, x86-64: Python 3.11, NumPy, our modules and the compiled kernels, before
# a model is opened.
PROGRAM = 40 << 20
LOADED = 10 << 20  # what imports when a model runs, and pieces of logits
TOKEN = 600  # of one token of the vocabulary: its text, its place in two tables, its merges
DRIVER = 40 << 20  # a Vulkan driver of hardware, with its pipelines
SOFTWARE_DRIVER = 140 << 20  # lavapipe: LLVM, and the code that it made of shaders


def program_bytes(vocabulary: int, device: DeviceInfo | None, *, started: bool) -> int:
    """`started`: without what is there before a model is opened."""
    own = LOADED + TOKEN * vocabulary + (0 if started else PROGRAM)
    if device is None:
        return own
    return own + (SOFTWARE_DRIVER if device.kind == "software" else DRIVER)
