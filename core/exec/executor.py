"""The protocol of an executor; `exec/reference.py` is the definition that all agree with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.plan.plan import Plan, Program, Tensor
from llm_lite.core.plan.step import Step

if TYPE_CHECKING:
    from llm_lite.core.gpu.pipelines import BufferRange

StopCheck = Callable[[], bool]
Progress = Callable[[float], None]  # 0..1


class Executor(Protocol):
    """Weights and state of one model, ready to run steps. Not for two threads at once.

    Constructed as `Executor(program, weights, ...)` with `weights: Mapping[str, TensorData]`.
    The plan of a step is `program.plan_of(step)`.
    """

    @property
    def program(self) -> Program: ...

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of weights held in memory or mapped, in this executor's own layout."""
        ...

    def run(self, step: Step, should_stop: StopCheck | None = None) -> NDArray[np.float32]:
        """Run a whole step; logits float32 [step.outputs, vocabulary], the caller's own copy.

        CancelledError once `should_stop` says so; positions from step.start on are then undefined.
        """
        ...

    def run_ops(
        self, plan: Plan, step: Step, first: int, last: int, skip: Collection[str] = ()
    ) -> None:
        """Run ops first..last-1 of the plan but those named in `skip`, to compare or to look
        inside; their inputs must be in place."""
        ...

    def measure(self, plan: Plan, step: Step, times: int = 1) -> tuple[float, list[float]]:
        """Run a step so often; seconds a step: the whole, and what each op takes of it.

        What the ops do not add up to is waiting. UnsupportedError where the device has no clock.
        """
        ...

    def read(self, plan: Plan, tensor: Tensor, step: Step) -> NDArray[np.float32]:
        """Return a tensor's values. Scratch: the rows in use; state: all of it; a8: the values that
        its blocks stand for."""
        ...

    def write(self, plan: Plan, tensor: Tensor, step: Step, values: NDArray[np.float32]) -> None:
        """Set what `read` returns; f32 scratch and state only."""
        ...

    def host_state(self, name: str) -> NDArray[np.uint8] | None:
        """Return the state tensor's own memory, uint8 [rows, bytes of a row] (`core.quant.rows`);
        None if it is not in the host's memory. It stays readable after `close`."""
        ...

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]:
        """Return a copy of rows of a state tensor, in the format of `host_state`: the same bytes in
        every executor."""
        ...

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None:
        """Set rows of a state tensor to what `read_state` gave, of this executor or another."""
        ...

    def device_state(self, name: str) -> BufferRange | None:
        """Return the state tensor's range on the Vulkan device; None for other executors."""
        ...

    def extend(self, program: Program) -> None:
        """Run steps of `program` from now on: the plans of the one before, and others behind them,
        over the same weights. Its further states are there, the others stay as they are.
        UnsupportedError where another executor has a part of the steps, OutOfDeviceMemoryError."""
        ...

    def leave_a_core(self, wanted: bool) -> None:
        """Leave a core to other work, or use it again; from any thread. It matters to executors
        that compute on all cores."""
        ...

    def close(self) -> None: ...
