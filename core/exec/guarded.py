"""Calls of an accelerator's package, whose errors become ours and name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar, cast

import numpy as np

from llm_lite.core.errors import AcceleratorError, LlmLiteError, OutOfDeviceMemoryError
from llm_lite.core.exec.accelerator import Accelerator, OpRunner
from llm_lite.core.exec.parts import Bytes
from llm_lite.core.messages.inspecting.accounts import StepAccount
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.plan import Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData

_T = TypeVar("_T")
_OF_RUNNERS = ("weight_bytes", "run_ops", "give", "take", "close")


def guarded(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with AcceleratorError for what it raises, SystemExit too, and for what
    it returns of another type; OutOfDeviceMemoryError for a MemoryError. A ValueError of `account`
    stays: it is about what a person chose."""
    kind = _GuardedAccounting if hasattr(accelerator, "account") else _Guarded
    return kind(accelerator)


def _called(
    name: str, call: Callable[[], _T], kept: tuple[type[Exception], ...] = (LlmLiteError,)
) -> _T:
    try:
        return call()
    except KeyboardInterrupt:  # a person's
        raise
    except kept:
        raise
    except MemoryError as error:
        raise OutOfDeviceMemoryError(f"{name}: not enough memory: {message_text(error)}") from error
    except BaseException as error:  # whatever a package raises must not end the program
        why = f"{type(error).__name__}: {message_text(error)}"
        raise AcceleratorError(f"the accelerator {name} failed: {one_line(why)}") from error


def message_text(error: BaseException) -> str:
    """Return an error's text, whose making may fail too."""
    try:
        return one_line(str(error))
    except Exception:
        return "an error without a text"


def _wrong(name: str, what: str, expected: str, found: object) -> AcceleratorError:
    return AcceleratorError(
        f"the accelerator {name}: {what}: expected {expected}, found {shown(found)}"
    )


def shown(found: object) -> str:
    """Return how a message shows what a package returned."""
    if isinstance(found, np.ndarray):
        return f"{found.dtype} {found.shape}"
    plain = found is None or isinstance(found, bool | int | float | complex | str)
    return one_line(f"{found!r:.60}") if plain else f"a {one_line(type(found).__name__)[:60]}"


class _Guarded:
    def __init__(self, of: Accelerator) -> None:
        self._of = of
        self.name: str = _called("of a package", lambda: of.name)

    @property
    def device(self) -> str:
        found: object = _called(self.name, lambda: self._of.device)
        if not isinstance(found, str):
            raise _wrong(self.name, "device", "a text", found)
        return found

    @property
    def activations(self) -> Literal["a32", "a8"]:
        return _called(self.name, lambda: self._of.activations)

    def takes(self, op: Op, plan: Plan) -> bool:
        found: object = _called(self.name, lambda: self._of.takes(op, plan))
        if not isinstance(found, bool | np.bool_):
            raise _wrong(self.name, f"takes of {op.label} ({op.name})", "True or False", found)
        return bool(found)

    def weight_bytes(self, weight: Tensor) -> int:
        found = _called(self.name, lambda: self._of.weight_bytes(weight))
        return _bytes_of(self.name, f"weight_bytes of {weight.name}", found)

    def runner(self, program: Program, weights: Mapping[str, TensorData]) -> OpRunner:
        made = _called(self.name, lambda: self._of.runner(program, weights))
        missing = _called(self.name, lambda: [n for n in _OF_RUNNERS if not hasattr(made, n)])
        if missing:
            raise _wrong(self.name, "runner", f"one with {', '.join(missing)}", made)
        return _GuardedRunner(self.name, made)


def _bytes_of(name: str, what: str, found: object) -> int:
    if not isinstance(found, int | np.integer) or isinstance(found, bool) or found < 0:
        raise _wrong(name, what, "a number of bytes", found)
    return int(found)


class _GuardedAccounting(_Guarded):
    def account(self, plan: Plan, step: Step, chosen: Mapping[str, float]) -> StepAccount:
        call = cast(Callable[..., StepAccount], getattr(self._of, "account"))  # noqa: B009
        found: object = _called(
            self.name, lambda: call(plan, step, chosen), (LlmLiteError, ValueError)
        )
        if not isinstance(found, StepAccount):
            raise _wrong(self.name, "account", "a StepAccount", found)
        return found


class _GuardedRunner:
    def __init__(self, name: str, of: OpRunner) -> None:
        self.name, self.of = name, of

    @property
    def weight_bytes(self) -> int:
        found = _called(self.name, lambda: self.of.weight_bytes)
        return _bytes_of(self.name, "weight_bytes of its runner", found)

    def run_ops(self, plan: Plan, step: Step, first: int, last: int) -> None:
        _called(self.name, lambda: self.of.run_ops(plan, step, first, last))

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        _called(self.name, lambda: self.of.give(tensor, step, data))

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        found: object = _called(self.name, lambda: self.of.take(tensor, step))
        expected = tensor.rows_in(step), tensor_row_bytes(tensor)
        if not isinstance(found, np.ndarray) or (found.dtype, found.shape) != (np.uint8, expected):
            rows = f"{expected[0]} rows of {expected[1]} bytes"
            raise _wrong(self.name, f"take of {tensor.name}", rows, found)
        return found

    def close(self) -> None:
        _called(self.name, lambda: self.of.close())
