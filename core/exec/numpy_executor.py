"""Runs a plan with the functions of `exec/reference.py`, which other executors agree with."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec import reference
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import LEFT_OUT, Kind, Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import I32, NO_STATE, PAGE, PageShape, Segment, Step
from llm_lite.core.quant import rows
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]


def _filled(tensor: Tensor) -> NDArray[np.uint8]:
    if not tensor.fill:
        return np.zeros((tensor.shape[0], tensor_row_bytes(tensor)), np.uint8)
    values = np.full(tensor.shape, tensor.fill, np.float32)
    return rows.encode(values, tensor.dtype, tensor.block)


def _rows_of(tensor: Tensor, segment: Segment, positions: I32, step: Step, pages: PageShape) -> I32:
    """Return the rows of a cache in which positions of a segment's sequence lie."""
    used = segment.pages[positions // PAGE]
    places = pages.places(used, tensor.shape[0], tensor.ring, step.windows)
    return places * np.int32(PAGE) + positions % np.int32(PAGE)


def _store(
    values: NDArray[np.uint8],
    cache: NDArray[np.uint8],
    tensor: Tensor,
    step: Step,
    pages: PageShape | None,
) -> None:
    if pages is None:
        reference.store(values, cache, step.start)
        return
    done = 0
    for segment in step.segments:
        last = done + segment.count
        cache[_rows_of(tensor, segment, step.positions[done:last], step, pages)] = values[done:last]
        done = last


def _product(x: F32, weight: F32, step: Step) -> F32:
    """Multiply each segment's rows by themselves, so that they get the bits that they have alone:
    BLAS adds in another order for another number of rows."""
    if len(step.segments) < 2:
        return reference.matmul(x, weight)
    of_tokens = len(x) == step.count
    counts = [segment.count if of_tokens else segment.outputs for segment in step.segments]
    parts = np.split(x, np.cumsum(counts[:-1]))
    return np.concatenate([reference.matmul(part, weight) for part in parts])


def _optional(op: Op, names: tuple[str, ...], first: int, arguments: list[F32]) -> dict[str, F32]:
    """Return the operands by these names, from the op's input `first` on, that are not left out."""
    operands = zip(names, op.inputs[first:], strict=False)
    there = [name for name, operand in operands if operand != LEFT_OUT]
    return dict(zip(there, arguments[first:], strict=True))


def _attention_of_segments(
    q: F32,
    keys: F32,
    values: F32,
    gains: F32,
    cache: Tensor,
    step: Step,
    pages: PageShape,
    **params: Any,
) -> F32:
    """Compute attention of each segment by itself, over its own pages in the order of its
    positions; cross attention is over the source, which is in no pages."""
    parts, done = [], 0
    gains = gains.reshape(pages.slots, -1, gains.shape[1])
    for segment in step.segments:
        rows = np.arange(params["source"] if params["cross"] else segment.kv_length, dtype=np.int32)
        if not params["cross"]:
            rows = _rows_of(cache, segment, rows, step, pages)
        own = q[done : done + segment.count]
        weights = gains[segment.slot]
        parts.append(
            reference.attention(own, keys[rows], values[rows], weights, segment.start, **params)
        )
        done += segment.count
    return np.concatenate(parts)


class NumpyExecutor:
    """Runs a program op by op in NumPy. Weights are dequantized when first used, and kept."""

    def __init__(self, program: Program, weights: Mapping[str, TensorData]) -> None:
        self.program = program
        self._weights = weights
        self._float_weights: dict[str, F32] = {}
        self._scratch: dict[str, F32] = {}
        self._states = {t.name: t for t in program.plans[0].tensors if t.kind is Kind.STATE}
        self._state = {name: _filled(tensor) for name, tensor in self._states.items()}  # bytes

    def extend(self, program: Program) -> None:
        self.program = program
        for plan in program.plans:
            for tensor in plan.tensors:
                if tensor.kind is Kind.STATE and tensor.name not in self._states:
                    self._states[tensor.name] = tensor
                    self._state[tensor.name] = _filled(tensor)

    @property
    def weight_bytes(self) -> int:
        names = {t.name for t in self.program.plans[0].tensors if t.kind is Kind.WEIGHT}
        return sum(self._weights[name].nbytes for name in names)

    def run(self, step: Step, should_stop: StopCheck | None = None) -> F32:
        plan = self.program.plan_of(step)
        for op in plan.ops:
            if should_stop and should_stop():
                raise CancelledError("stopped")
            self._run_op(plan, op, step)
        return self._scratch[plan.tensors[plan.logits].name].copy()

    def run_ops(
        self, plan: Plan, step: Step, first: int, last: int, skip: Collection[str] = ()
    ) -> None:
        for op in plan.ops[first:last]:
            if op.name not in skip:
                self._run_op(plan, op, step)

    def measure(self, plan: Plan, step: Step, times: int = 1) -> tuple[float, list[float]]:
        taken = [0.0] * len(plan.ops)
        for _ in range(times):
            for number, op in enumerate(plan.ops):
                began = time.perf_counter()
                self._run_op(plan, op, step)
                taken[number] += (time.perf_counter() - began) / times
        return sum(taken), taken

    def read(self, plan: Plan, tensor: Tensor, step: Step) -> F32:
        return self._value(tensor).astype(np.float32)

    def write(self, plan: Plan, tensor: Tensor, step: Step, values: F32) -> None:
        if tensor.kind is Kind.STATE:
            self._state[tensor.name][:] = rows.encode(values, tensor.dtype, tensor.block)
        else:
            self._scratch[tensor.name] = values.copy()

    def host_state(self, name: str) -> NDArray[np.uint8]:
        return self._state[name]

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]:
        return self._state[name][first : first + count].copy()

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None:
        self._state[name][first : first + len(data)] = data

    def leave_a_core(self, wanted: bool) -> None:
        """Do nothing: this executor does not occupy all CPU cores."""

    def device_state(self, name: str) -> None:
        return None

    def close(self) -> None:
        self._float_weights.clear()
        self._scratch.clear()

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is reported where it is used
    def _run_op(self, plan: Plan, op: Op, step: Step) -> None:
        if op.name == "table_rows":
            table = self._weights[plan.tensors[op.inputs[0]].name]
            self._scratch[plan.tensors[op.outputs[0]].name] = reference.table_rows(
                table, step.tokens
            )
            return
        arguments = [self._value(plan.tensors[i]) for i in op.given]
        if op.name == "store":
            for values, output in zip(arguments, op.outputs, strict=True):
                tensor = plan.tensors[output]
                encoded = rows.encode(values, tensor.dtype, tensor.block)
                cache = self._state[tensor.name]
                _store(encoded, cache, tensor, step, self.program.pages)
            return
        if op.name in STATEFUL:
            self._run_stateful(plan, op, arguments, step)
            return
        found = self._call(plan, op, arguments, step)
        results = found if isinstance(found, tuple) else (found,)
        for output, result in zip(op.outputs, results, strict=True):
            self._scratch[plan.tensors[output].name] = result.astype(np.float32, copy=False)

    def _run_stateful(self, plan: Plan, op: Op, arguments: list[F32], step: Step) -> None:
        """Run an op that goes on from a state, a sequence after the other."""
        y, tensor = (plan.tensors[i] for i in op.outputs)
        function: Callable[..., tuple[F32, F32]] = getattr(reference, op.name)
        slots = self.program.pages.states if self.program.pages else 1
        state = self._state[tensor.name].view(np.float32).reshape(slots, -1, tensor.shape[1])
        parts, params = list[F32](), dict[str, Any](op.params)
        for (first, end), (source, target) in zip(step.bounds, step.states, strict=True):
            own = [
                one[first:end] if plan.tensors[i].rows == "tokens" else one
                for i, one in zip(op.given, arguments, strict=True)
            ]
            before = np.zeros_like(state[0]) if source == NO_STATE else state[source]
            made, left = function(*own, before, **params)
            parts.append(made)
            state[target] = left
        self._scratch[y.name] = np.concatenate(parts)

    def _call(self, plan: Plan, op: Op, arguments: list[F32], step: Step) -> F32 | tuple[F32, ...]:
        """Call the reference function of the op's name; some also take values of the step, or the
        size of what they make."""
        params: dict[str, Any] = dict(op.params)
        columns = plan.tensors[op.outputs[0]].shape[1]
        match op.name:
            case "columns":
                places = {name: int(value) for name, value in params.items()}
                return reference.columns(arguments[0], count=columns, **places)
            case "route":
                params |= {name: int(value) for name, value in params.items() if name != "factor"}
                params |= _optional(op, ("bias", "gains", "switches"), 1, arguments)
                return self._route(arguments[0], step, columns, params)
            case "shift":
                return self._shift(arguments[0], arguments[1], step, layer=int(params["layer"]))
            case "expert_places":
                count = plan.tensors[op.outputs[1]].shape[1] - 1
                return reference.expert_places(arguments[0], count=count)
            case "matmul":
                x, weight = arguments
                return _product(x, weight[:columns, : x.shape[1]], step)
            case "embed":
                return reference.embed(arguments[0], step.tokens)
            case "position_rows":
                return reference.position_rows(arguments[0], step.positions, **params)
            case "type_rows":
                parts = [step.tokens[first:end] for first, end in step.bounds]
                rows = [reference.type_rows(arguments[0], part, **params) for part in parts]
                return np.concatenate(rows)
            case "rope":
                factors = arguments[1] if len(arguments) > 1 else None
                return reference.rope(arguments[0], factors, step.positions, **params)
            case "attention":
                q, keys, values, gains = arguments[:4]
                params |= _optional(op, ("sinks", "bias"), 4, arguments) | {"source": step.source}
                pages = self.program.pages
                if pages is None:
                    return reference.attention(q, keys, values, gains, step.start, **params)
                cache = plan.tensors[op.inputs[1]]
                return _attention_of_segments(q, keys, values, gains, cache, step, pages, **params)
            case "output_rows":
                return reference.output_rows(arguments[0], step.output_tokens)
        function: Callable[..., F32 | tuple[F32, ...]] = getattr(reference, op.name)
        return function(*arguments, **params)

    def _route(
        self, logits: F32, step: Step, count: int, params: dict[str, Any]
    ) -> tuple[F32, F32]:
        """Route each sequence by its own switches."""
        switches, pages = params.pop("switches", None), self.program.pages
        if switches is None or pages is None:
            return reference.route(logits, switches=switches, count=count, **params)
        of_slot = np.split(switches, pages.slots)
        parts = [
            reference.route(logits[first:end], switches=of_slot[one.slot], count=count, **params)
            for (first, end), one in zip(step.bounds, step.segments, strict=True)
        ]
        experts, shares = zip(*parts, strict=True)
        return np.concatenate(experts), np.concatenate(shares)

    def _shift(self, x: F32, shifts: F32, step: Step, *, layer: int) -> F32:
        """Shift each sequence by its own vectors."""
        pages = self.program.pages
        if pages is None:
            return reference.shift(x, shifts, layer=layer)
        of_slot = np.split(shifts, pages.slots)
        parts = [
            reference.shift(x[first:end], of_slot[one.slot], layer=layer)
            for (first, end), one in zip(step.bounds, step.segments, strict=True)
        ]
        return np.concatenate(parts)

    def _value(self, tensor: Tensor) -> F32:
        if tensor.kind is Kind.STATE:
            columns = tensor.shape[1]
            return rows.decode(self._state[tensor.name], tensor.dtype, columns, tensor.block)
        if tensor.kind is Kind.SCRATCH:
            return self._scratch[tensor.name]
        if tensor.name not in self._float_weights:
            self._float_weights[tensor.name] = self._weights[tensor.name].dequantize()
        return self._float_weights[tensor.name]
