"""An executor of two: an accelerator runs the ops that it takes, C++ all others. Values cross where
an op reads what the other one made."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import AcceleratorError, CancelledError, UnsupportedError
from llm_lite.core.exec.accelerator import Accelerator, OpRunner, cut_of
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.exec.parts import Bytes, Cut, held
from llm_lite.core.plan.plan import Kind, Plan, Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant import rows
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]


class Host(Executor, OpRunner, Protocol):
    """The executor that has all caches and states, and the weights of its own ops."""

    def run_ops(
        self,
        plan: Plan,
        step: Step,
        first: int,
        last: int,
        skip: Collection[str] = (),
        should_stop: StopCheck | None = None,
    ) -> None: ...


class SplitExecutor:
    """See `core.exec.executor.Executor`. `cut`: the parts that are apart are the host's, which has
    been made for them."""

    def __init__(self, program: Program, runner: OpRunner, host: Host, cut: Cut) -> None:
        self.program = program
        self.runner, self.host = runner, host
        self._parts = {id(plan): cut(plan) for plan in program.plans}
        self._holders: dict[int, set[bool]] = {}  # by scratch tensor: who has it; True: the host
        self._of: tuple[Plan, Step] | None = None  # that the holders are of
        self._given_finite = True  # what the accelerator was given in the step
        self.crossed = 0  # bytes of values that crossed in the last step
        self.crossings = 0  # and how many did

    def extend(self, program: Program) -> None:
        """Raise UnsupportedError: the accelerator's package was given its ops once."""
        raise UnsupportedError("the steps are shared with the accelerator of a package")

    @property
    def weight_bytes(self) -> int:
        return self.host.weight_bytes + self.runner.weight_bytes

    def run(self, step: Step, should_stop: StopCheck | None = None) -> F32:
        plan = self.program.plan_of(step)
        self._begin(plan, step)
        for part in self._parts[id(plan)]:
            if should_stop is not None and should_stop():
                raise CancelledError("stopped")
            self._run(plan, step, part.first, part.last, on_host=part.apart, stop=should_stop)
        return self.read(plan, plan.tensors[plan.logits], step).copy()

    def run_ops(
        self, plan: Plan, step: Step, first: int, last: int, skip: Collection[str] = ()
    ) -> None:
        self._begin_if_new(plan, step)
        for part in self._parts[id(plan)]:
            for index in range(max(first, part.first), min(last, part.last)):
                if plan.ops[index].name not in skip:
                    self._run(plan, step, index, index + 1, on_host=part.apart)

    def measure(self, plan: Plan, step: Step, times: int = 1) -> tuple[float, list[float]]:
        taken = [0.0] * len(plan.ops)
        began = time.perf_counter()
        for _ in range(times):
            self._begin(plan, step)
            for part in self._parts[id(plan)]:
                for index in range(part.first, part.last):
                    start = time.perf_counter()
                    self._run(plan, step, index, index + 1, on_host=part.apart)
                    taken[index] += (time.perf_counter() - start) / times
        return (time.perf_counter() - began) / times, taken

    def read(self, plan: Plan, tensor: Tensor, step: Step) -> F32:
        if tensor.kind is not Kind.SCRATCH or self._is_on_host(tensor):
            return self.host.read(plan, tensor, step)
        return _decoded(tensor, self._taken(tensor, step))

    def write(self, plan: Plan, tensor: Tensor, step: Step, values: F32) -> None:
        self._begin_if_new(plan, step)
        self.host.write(plan, tensor, step, values)
        if tensor.kind is Kind.SCRATCH:
            self._holders[tensor.id] = {True}

    def host_state(self, name: str) -> NDArray[np.uint8] | None:
        return self.host.host_state(name)

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]:
        return self.host.read_state(name, first, count)

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None:
        self.host.write_state(name, first, data)

    def device_state(self, name: str) -> None:
        return None

    def leave_a_core(self, wanted: bool) -> None:
        self.host.leave_a_core(wanted)

    def close(self) -> None:
        try:
            self.runner.close()
        finally:
            self.host.close()

    def taken(self, plan: Plan) -> int:
        """Return how many ops of a plan the accelerator runs."""
        return sum(part.last - part.first for part in self._parts[id(plan)] if not part.apart)

    def _begin(self, plan: Plan, step: Step) -> None:
        self._of, self._holders = (plan, step), {}
        self._given_finite = True
        self.crossed = self.crossings = 0

    def _begin_if_new(self, plan: Plan, step: Step) -> None:
        if self._of is None or self._of[0] is not plan or self._of[1] is not step:
            self._begin(plan, step)

    def _is_on_host(self, tensor: Tensor) -> bool:
        return True in self._holders.get(tensor.id, {True})

    def _taken(self, tensor: Tensor, step: Step) -> Bytes:
        """Return what the accelerator has of a tensor. AcceleratorError for values that are not
        finite where all that it was given in the step are: else the model's file would be blamed.
        """
        data = self.runner.take(tensor, step)
        if self._given_finite and not _is_finite(tensor, data):
            name = getattr(self.runner, "name", "")
            raise AcceleratorError(
                f"the accelerator {name} gave a {tensor.name} with NaN or infinity, of values that "
                "are finite"
            )
        return data

    def _run(
        self,
        plan: Plan,
        step: Step,
        first: int,
        last: int,
        *,
        on_host: bool,
        stop: StopCheck | None = None,
    ) -> None:
        made = set[int]()
        for op in plan.ops[first:last]:
            for number in op.given:
                if number not in made and on_host not in self._holders.get(number, {on_host}):
                    self._cross(plan.tensors[number], step, to_host=on_host)
            made.update(i for i in op.outputs if plan.tensors[i].kind is Kind.SCRATCH)
        if on_host:
            self.host.run_ops(plan, step, first, last, should_stop=stop)
        else:
            self.runner.run_ops(plan, step, first, last)
        self._holders |= {number: {on_host} for number in made}

    def _cross(self, tensor: Tensor, step: Step, *, to_host: bool) -> None:
        if to_host:
            data = self._taken(tensor, step)
            self.host.give(tensor, step, data)
        else:
            data = self.host.take(tensor, step)
            self._given_finite &= _is_finite(tensor, data)
            self.runner.give(tensor, step, data)
        self._holders[tensor.id].add(to_host)
        self.crossed += data.nbytes
        self.crossings += 1


def _decoded(tensor: Tensor, data: Bytes) -> F32:
    if tensor.dtype == "a8":
        return a8.decode_rows(data, tensor.shape[1])
    return rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)


def _is_finite(tensor: Tensor, data: Bytes) -> bool:
    return bool(np.isfinite(_decoded(tensor, data)).all())


def split_executor(
    accelerator: Accelerator,
    program: Program,
    weights: Mapping[str, TensorData],
    make_host: Callable[[Cut], Host],
) -> SplitExecutor:
    """Return an executor of an accelerator and of the host's that `make_host` makes for the rest of
    the plans."""
    cut = cut_of(accelerator)
    own = {t.name for t in held(program, cut, apart=False) if t.kind is Kind.WEIGHT}
    runner = accelerator.runner(program, {name: weights[name] for name in sorted(own)})
    try:
        return SplitExecutor(program, runner, make_host(cut), cut)
    except BaseException:
        runner.close()
        raise
