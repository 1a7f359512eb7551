"""Plans as the C++ side takes them, flat arrays; and the memory that its threads have for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llm_lite_kernels import _cpp
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.plan.ops import MOST_INPUTS, MOST_OUTPUTS, MOST_PARAMS, OPS
from llm_lite.core.plan.plan import Kind, Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.processor import isa_name
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.twins import DTYPES

_ROWS = ("fixed", "tokens", "outputs")  # as the enum in kernels_cpp/plan/op.h
_OPS = tuple(OPS)  # as the enum that is generated

# The type that the kernels know a tensor by, and its address.
Place = Callable[[Tensor], tuple[str, int]]


class ThreadMemory(Struct, frozen=True):
    """Bytes that the interpreter has for what its threads compute on the way."""

    each: int  # of every thread
    shared: int


def plan_rows(program: Program, plan: Plan, place: Place) -> tuple[Any, ...]:
    """Return the arguments of `add_plan` of the interpreter: a row a tensor and an op, int64, and
    float64 [ops, parameters], and the shape of steps."""
    return (
        np.array([_tensor_row(tensor, place) for tensor in plan.tensors], np.int64),
        np.array([_op_row(op) for op in plan.ops], np.int64),
        np.array([_param_row(op) for op in plan.ops], np.float64),
        _step_shape(program, plan),
    )


def thread_memory(program: Program, isa: str | None = None) -> ThreadMemory:
    """Return the memory that a thread needs for this program, without its weights and caches.
    RequestError as of `isa_name`."""
    memory = vectors(program)  # alive as long as the interpreter

    def place(tensor: Tensor) -> tuple[str, int]:
        is_matrix = tensor.kind is Kind.WEIGHT
        dtype = FORMATS[tensor.dtype].multiplied if is_matrix else tensor.dtype
        return dtype, int(memory.ctypes.data)

    interpreter = _cpp.Interpreter(isa or isa_name(), 1)
    for plan in program.plans:
        interpreter.add_plan(*plan_rows(program, plan, place))
    return ThreadMemory(interpreter.worker_bytes, interpreter.shared_bytes)


def vectors(program: Program) -> NDArray[np.uint8]:
    """Return zeros in place of each vector: a plan reads those that its rotations are divided
    by."""
    tensors = [tensor for plan in program.plans for tensor in plan.tensors]
    most = max((tensor_row_bytes(t) for t in tensors if len(t.shape) == 1), default=0)
    return np.asarray(_cpp.Memory(most))


def _tensor_row(tensor: Tensor, place: Place) -> tuple[int, ...]:
    count, columns = tensor.shape if len(tensor.shape) == 2 else (1, *tensor.shape)
    dtype, address = place(tensor)
    kind = _ROWS.index(tensor.rows), tensor.per_token
    size = count, columns, tensor.block, tensor.ring
    return tensor.id, DTYPES.index(dtype), *kind, *size, address


def _op_row(op: Op) -> tuple[int, ...]:
    inputs = (*op.inputs, *[-1] * (MOST_INPUTS - len(op.inputs)))
    outputs = (*op.outputs, *[-1] * (MOST_OUTPUTS - len(op.outputs)))
    return _OPS.index(op.name), *inputs, *outputs


def _param_row(op: Op) -> tuple[float, ...]:
    values = [op.params[name] for name in OPS[op.name].params]
    return *values, *[0.0] * (MOST_PARAMS - len(values))


def _step_shape(program: Program, plan: Plan) -> tuple[int, ...]:
    """Return the fields of StepShape in kernels_cpp/base/step.h."""
    pages = program.pages
    shared = (0, 0, 0, 1, 0, 0, 1)
    if pages is not None:
        sizes = (pages.segments, pages.table, pages.pages)
        shared = (*sizes, pages.slots, pages.ringed, pages.windowed, pages.states)
    return plan.max_tokens, plan.max_outputs, *shared, program.source
