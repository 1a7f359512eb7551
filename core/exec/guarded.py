"""Calls of an accelerator's package, whose errors become ours and name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar, cast

from llm_lite.core.errors import AcceleratorError, LlmLiteError, OutOfDeviceMemoryError
from llm_lite.core.exec.accelerator import Accelerator, OpRunner
from llm_lite.core.exec.parts import Bytes
from llm_lite.core.messages.inspecting.accounts import StepAccount
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.plan import Op, Plan, Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData

_T = TypeVar("_T")


def guarded(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with AcceleratorError for what it raises, OutOfDeviceMemoryError for a
    MemoryError. A ValueError of `account` stays: it is about what a person chose."""
    kind = _GuardedAccounting if hasattr(accelerator, "account") else _Guarded
    return kind(accelerator)


def _called(
    name: str, call: Callable[[], _T], kept: tuple[type[Exception], ...] = (LlmLiteError,)
) -> _T:
    try:
        return call()
    except kept:
        raise
    except MemoryError as error:
        raise OutOfDeviceMemoryError(
            f"{name}: not enough memory: {one_line(str(error))}"
        ) from error
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}")
        raise AcceleratorError(f"the accelerator {name} failed: {why}") from error


class _Guarded:
    def __init__(self, of: Accelerator) -> None:
        self._of = of
        self.name: str = _called("of a package", lambda: of.name)

    @property
    def device(self) -> str:
        return _called(self.name, lambda: str(self._of.device))

    @property
    def activations(self) -> Literal["a32", "a8"]:
        return _called(self.name, lambda: self._of.activations)

    def takes(self, op: Op, plan: Plan) -> bool:
        return _called(self.name, lambda: bool(self._of.takes(op, plan)))

    def weight_bytes(self, weight: Tensor) -> int:
        return _called(self.name, lambda: int(self._of.weight_bytes(weight)))

    def runner(self, program: Program, weights: Mapping[str, TensorData]) -> OpRunner:
        made = _called(self.name, lambda: self._of.runner(program, weights))
        return _GuardedRunner(self.name, made)


class _GuardedAccounting(_Guarded):
    def account(self, plan: Plan, step: Step, chosen: Mapping[str, float]) -> StepAccount:
        call = cast(Callable[..., StepAccount], getattr(self._of, "account"))  # noqa: B009
        return _called(self.name, lambda: call(plan, step, chosen), (LlmLiteError, ValueError))


class _GuardedRunner:
    def __init__(self, name: str, of: OpRunner) -> None:
        self.name, self.of = name, of

    @property
    def weight_bytes(self) -> int:
        return _called(self.name, lambda: self.of.weight_bytes)

    def run_ops(self, plan: Plan, step: Step, first: int, last: int) -> None:
        _called(self.name, lambda: self.of.run_ops(plan, step, first, last))

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        _called(self.name, lambda: self.of.give(tensor, step, data))

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        return _called(self.name, lambda: self.of.take(tensor, step))

    def close(self) -> None:
        _called(self.name, lambda: self.of.close())
