"""The interface of executors from outside: a package registers an accelerator, which runs the ops
that it takes; C++ runs all others (`split.py`).

A package names an object as an entry point of the group `llm_lite.executors`; docs/executors.md
shows how. `conformance.py` checks one against `reference.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.parts import Bytes, Cut, PlanPart, cut_out
from llm_lite.core.messages.inspecting.accounts import StepAccount
from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import Kind, Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.quant import rows
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]
Value = F32 | a8.Blocks  # float32 [T, K], or rows in int8 blocks

GROUP = "llm_lite.executors"  # of entry points
# What C++ runs whatever an accelerator takes: caches and states are its own, and so are tables.
_HOST_OPS = STATEFUL | {"store", "attention", "table_rows"}


class OpRunner(Protocol):
    """An accelerator with the weights of the ops that it takes of one program. Not for two threads
    at once."""

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of its weights in memory, in its own layout."""
        ...

    def run_ops(self, plan: Plan, step: Step, first: int, last: int) -> None:
        """Run ops first..last-1 of the plan; it takes all of them and has their inputs."""
        ...

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        """Set the rows in use of a scratch tensor, uint8 [rows, bytes of a row]. `data` may change
        behind this call."""
        ...

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        """Return the rows in use of a scratch tensor that it has."""
        ...

    def close(self) -> None: ...


class Accelerator(Protocol):
    """A kind of executor from outside."""

    @property
    def name(self) -> str:
        """Return the word of `--backend`: small letters, digits and dashes."""
        ...

    @property
    def device(self) -> str:
        """Return what it runs on, for people."""
        ...

    @property
    def activations(self) -> Literal["a32", "a8"]:
        """Return the type of activations that it multiplies where a person leaves it open."""
        ...

    def takes(self, op: Op, plan: Plan) -> bool:
        """Return True if it runs this op, of these formats and sizes; always the same for an op of
        a plan. What keeps a cache or a state is not asked: C++ runs it."""
        ...

    def weight_bytes(self, weight: Tensor) -> int:
        """Return the bytes that a weight takes in its layout, before it is made."""
        ...

    def runner(self, program: Program, weights: Mapping[str, TensorData]) -> OpRunner:
        """Return a runner with the weights of the ops that it takes, which are `weights`."""
        ...


@runtime_checkable
class Accounting(Protocol):
    """An accelerator that says what a step would cost."""

    def account(self, plan: Plan, step: Step, chosen: Mapping[str, float]) -> StepAccount:
        """Return the account of a step with these of its parameters changed. ValueError, a
        sentence, for a parameter or a value that it does not have."""
        ...


def cut_of(accelerator: Accelerator) -> Cut:
    """Return how plans are cut for an accelerator: what it does not take is apart, for C++."""

    known: dict[int, tuple[Plan, tuple[PlanPart, ...]]] = {}  # each plan is cut once

    def cut(plan: Plan) -> tuple[PlanPart, ...]:
        if id(plan) not in known:
            refused = [i for i, op in enumerate(plan.ops) if not takes(accelerator, op, plan)]
            known[id(plan)] = plan, cut_out(plan, _joined(refused))
        return known[id(plan)][1]

    return cut


def takes(accelerator: Accelerator, op: Op, plan: Plan) -> bool:
    """Return True if an accelerator may run an op, and takes it."""
    states = any(plan.tensors[i].kind is Kind.STATE for i in op.given)
    return op.name not in _HOST_OPS and not states and accelerator.takes(op, plan)


def _joined(numbers: Sequence[int]) -> list[range]:
    """Return ascending numbers as ranges without gaps."""
    found = list[range]()
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


class HostRunner(ABC):
    """A runner whose values between ops lie in the host's memory: a package says what an op makes
    of its inputs."""

    def __init__(self) -> None:
        # Scratch tensors by their places in the plan's arena: one that is needed no longer goes
        # when another takes its place.
        self._rows: dict[int, Bytes] = {}

    @property
    @abstractmethod
    def weight_bytes(self) -> int: ...

    @abstractmethod
    def run_op(self, plan: Plan, op: Op, step: Step, inputs: list[Value]) -> list[Value]:
        """Return the outputs of an op, of its inputs that are scratch, in their order."""

    def run_ops(self, plan: Plan, step: Step, first: int, last: int) -> None:
        for op in plan.ops[first:last]:
            scratch = (plan.tensors[i] for i in op.given)
            inputs = [self._value(t, step) for t in scratch if t.kind is Kind.SCRATCH]
            outputs = (plan.tensors[i] for i in op.outputs)
            found: object = self.run_op(plan, op, step, inputs)
            expected_list = f"a list of {len(op.outputs)} arrays"
            if not isinstance(found, list | tuple):
                raise _wrong(op, expected_list, type(found).__name__)
            if len(found) != len(op.outputs):
                raise _wrong(op, expected_list, f"a list of {len(found)}")
            for tensor, value in zip(outputs, found, strict=True):
                data = _bytes(op, value)
                expected = tensor.rows_in(step), tensor_row_bytes(tensor)
                if data.shape != expected:
                    raise ValueError(
                        f"{op.label} ({op.name}): expected {expected[0]} rows of {expected[1]} "
                        f"bytes, found {data.shape[0]} of {data.shape[1]}"
                    )
                self._rows[tensor.offset] = data

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        self._rows[tensor.offset] = data.copy()

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        return self._rows[tensor.offset]

    def close(self) -> None:
        self._rows.clear()

    def _value(self, tensor: Tensor, step: Step) -> Value:
        data = self._rows[tensor.offset]
        if tensor.dtype == "a8":
            return a8.blocks_of_rows(data, tensor.shape[1])
        return rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)


def _bytes(op: Op, value: object) -> Bytes:
    if isinstance(value, a8.Blocks):
        return a8.encode_rows(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim != 2:
        shape = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else ""
        raise _wrong(op, "arrays of real numbers [T, K]", shape or type(value).__name__)
    return rows.encode(value, "f32")


def _wrong(op: Op, expected: str, found: str) -> ValueError:
    return ValueError(f"{op.label} ({op.name}): expected {expected}, found {found:.60}")
