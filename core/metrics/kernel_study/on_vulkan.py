"""The forms on a Vulkan device, each a shader of kernels_glsl/study/."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.vulkan.dispatch import Dispatch
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.exec.vulkan.kernels import dispatches
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.arithmetic import multiply_adds_gflop_s
from llm_lite.core.gpu.bandwidth import read_gb_s
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipeline_store import Pipelines
from llm_lite.core.gpu.pipelines import BufferRange, DescriptorSets
from llm_lite.core.gpu.timing import DispatchClock
from llm_lite.core.messages import StudyBackend
from llm_lite.core.metrics.kernel_study import own
from llm_lite.core.metrics.kernel_study.forms import (
    MATVEC_OWN,
    SOFTWARE_OWN,
    VULKAN,
    VULKAN_OWN,
    Form,
)
from llm_lite.core.metrics.kernel_study.pacing import Check, Paced

F32 = NDArray[np.float32]
SIDE = 4  # outputs of an invocation of `registers` along each side, as the shader says it
TARGET_S = 0.004  # of a submit


class VulkanProducts:
    """a [M,K] . b [N,K]^T in every form. `close` frees it; the device stays open.

    UnsupportedError where the device has no clock.
    """

    backend: StudyBackend = "vulkan"

    def __init__(self, device: Device, a: F32, b: F32) -> None:
        self._device, self._factors = device, (a, b)
        self._executor: VulkanExecutor | None = None
        self._shape = a.shape[0], b.shape[0], a.shape[1]
        self._tile = 16 if device.info.max_workgroup_invocations >= 256 else 8
        self._closing = ExitStack()
        try:
            self._clock = self._own(DispatchClock(device))
            self._pipelines = self._own(Pipelines(device))
            self._sets = self._own(DescriptorSets(device))
            nothing = np.full((a.shape[0], b.shape[0]), np.nan, np.float32)
            self._buffers = {
                name: self._buffer(values)
                for name, values in (("a", a), ("b", b), ("transposed", b.T), ("c", nothing))
            }
        except BaseException:
            self.close()
            raise

    @property
    def device(self) -> str:
        return self._device.info.name

    @property
    def software(self) -> bool:
        return self._device.info.kind == "software"

    @property
    def forms(self) -> tuple[Form, ...]:
        return (*VULKAN, self._own_form())

    def _own_form(self) -> Form:
        """Return the form of the shader that `Product.dispatches` chooses."""
        tuning, (rows, _, depth) = Tuning.of(self._device.info), self._shape
        if tuning.vector_tokens and depth % 32 == 0:
            return SOFTWARE_OWN
        return MATVEC_OWN if rows <= tuning.matvec_tokens else VULKAN_OWN

    def peaks(self, check: Check) -> tuple[float, float]:
        """Return GFLOP/s of arithmetic and GB/s of memory."""
        return multiply_adds_gflop_s(self._device, check=check), read_gb_s(self._device)

    def paced(self, form: Form) -> Paced:
        """Return a form's product to be timed; a row of workgroups is the least that is
        submitted."""
        dispatch = self._own_dispatch() if form.stem == "own" else self._dispatch(form)
        pipeline = self._pipelines.get(dispatch.variant, dispatch.constants)
        bound = pipeline.bind(self._sets, dispatch.buffers)
        across, rows = dispatch.groups
        recorded = dict[tuple[int, int], Any]()

        def run(first: int, count: int) -> float:
            if (first, count) not in recorded:
                recorded[first, count] = self._clock.record(
                    lambda into: pipeline.dispatch(into, bound, (across, count), (0, first))
                )
            return self._clock.seconds(recorded[first, count])

        return Paced(run, rows, 1, TARGET_S)

    def _dispatch(self, form: Form) -> Dispatch:
        edge = self._tile * (SIDE if form.stem == "registers" else 1)
        rows, outputs, depth = self._shape
        constants = {"TILE": self._tile, "M": rows, "N": outputs, "K": depth}
        used = {"A": "a", "B": "b" if form.plain else "transposed", "C": "c"}
        buffers = {name: _whole(self._buffers[kept]) for name, kept in used.items()}
        groups = -(-outputs // edge), -(-rows // edge)
        return Dispatch(f"study.{form.stem}", constants, buffers, groups, rows * outputs * depth)

    def _own_dispatch(self) -> Dispatch:
        """Return the dispatch of a plan's product, whose left factor is where the plan has it."""
        weights, rows = own.tensors(*self._factors), self._shape[0]
        program = own.program(weights)
        (plan,) = program.plans
        executor = self._own(VulkanExecutor(self._device, program, weights))
        at = own.product_op(plan)
        executor.run_ops(plan, own.step_of(rows), 0, at)
        self._executor = executor
        (dispatch,) = dispatches(executor, plan.ops[at], plan)
        return dispatch

    def result(self, form: Form) -> F32:
        """Return what a form of `paced` has written: float32 [M, N]."""
        rows, outputs, _ = self._shape
        if form.stem == "own":
            assert self._executor is not None
            return own.result(self._executor, rows)
        return self._buffers["c"].download().view(np.float32).reshape(rows, outputs)

    def close(self) -> None:
        self._closing.close()

    def _own(self, part: Any) -> Any:
        self._closing.callback(part.close)
        return part

    def _buffer(self, values: F32) -> Buffer:
        data = np.ascontiguousarray(values, np.float32)
        usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
        buffer: Buffer = self._own(Buffer(self._device, data.nbytes, usage, host=False))
        buffer.upload(data)
        return buffer


def _whole(buffer: Buffer) -> BufferRange:
    return buffer, 0, buffer.size
