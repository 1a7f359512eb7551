"""A measurement of how many multiply-adds a device does a second: the limit that products are
compared with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipelines import ComputePipeline, DescriptorSets
from llm_lite.core.gpu.timing import DispatchClock

_LANES = 128  # Vulkan promises a workgroup so many
_GROUPS = 4096  # enough to fill any device
_GROUPS_SOFTWARE = 256
_ADDS_A_ROUND = 64  # as the shader says it
_MOST_ROUNDS = 1 << 15  # software drivers end loops at 65,535 steps
_TARGET_S = 0.004  # of a submit


def multiply_adds_gflop_s(
    device: Device, repeat: int = 5, check: Callable[[], None] = lambda: None
) -> float:
    """Return GFLOP/s of float32 multiply-adds that need no memory, two operations each: the best of
    `repeat` submits of a few milliseconds. `check` is called between them and may raise.

    UnsupportedError where the device has no clock.
    """
    groups = _GROUPS_SOFTWARE if device.info.kind == "software" else _GROUPS
    usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    with ExitStack() as closing:

        def own(part: Any) -> Any:
            closing.callback(part.close)
            return part

        clock = own(DispatchClock(device))
        source = own(Buffer(device, 12, usage, host=True))
        target = own(Buffer(device, 4 * groups, usage, host=False))
        pipeline = own(ComputePipeline(device, "study.multiply_adds", {"LANES": _LANES}))
        sets = own(DescriptorSets(device))
        buffers = {"Source": (source, 0, source.size), "Target": (target, 0, target.size)}
        bound = pipeline.bind(sets, buffers)
        recorded = clock.record(lambda into: pipeline.dispatch(into, bound, (groups, 1)))
        source.array(np.float32)[:2] = 0.5

        def seconds(rounds: int) -> float:
            check()
            source.array(np.uint32)[2] = rounds
            return clock.seconds(recorded)

        rounds = 8
        while seconds(rounds) < _TARGET_S / 2 and rounds < _MOST_ROUNDS:
            rounds *= 2
        taken = min(seconds(rounds) for _ in range(repeat))
    return 2 * _ADDS_A_ROUND * rounds * groups * _LANES / taken / 1e9
