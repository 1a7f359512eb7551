"""Checks an accelerator against the definition of the ops: each op that it takes at awkward sizes,
in every format, and small models whose ops it runs in any selection.

Its author gets what our own executors are held to: NumPy's results op by op, and C++'s for whole
steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise, product
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.exec.accelerator import Accelerator, OpRunner, takes
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.op_cases import COLUMN_CASES, ROW_CASES
from llm_lite.core.exec.split import SplitExecutor, split_executor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Op, Plan, Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]
Weights = Mapping[str, TensorData]

VOCABULARY, CONTEXT, MOST = 40, 32, 13  # MOST: tokens of a step
COLUMNS = (1, 13, 96, 127)
OUTPUTS = (1, 13, 48, 127)
WIDTH, HEADS, LAYERS = 64, 2, 2  # of the small models
SUBSETS = 6  # of their ops, for each model
TOLERANCE = 2e-3  # of logits, beside the largest


class Failure(Struct, frozen=True):
    case: str
    problem: str  # a sentence: the op, the element, and by how much it differs


class Conformance(Struct, frozen=True):
    """The result of a check: how many cases had taken ops of each name, and what failed."""

    cases: Mapping[str, int]
    failures: tuple[Failure, ...]


class _Case(Struct, frozen=True):
    title: str
    weights: Weights
    program: Program


class Refusing(Struct, frozen=True):
    """An accelerator that takes fewer ops than another one: none of these labels."""

    of: Accelerator
    refused: frozenset[str]

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def device(self) -> str:
        return self.of.device

    @property
    def activations(self) -> Literal["a32", "a8"]:
        return self.of.activations

    def takes(self, op: Op, plan: Plan) -> bool:
        return op.label not in self.refused and self.of.takes(op, plan)

    def weight_bytes(self, weight: Tensor) -> int:
        return self.of.weight_bytes(weight)

    def runner(self, program: Program, weights: Weights) -> OpRunner:
        return self.of.runner(program, weights)


def conformance(
    accelerator: Accelerator, progress: Callable[[str], None] = lambda title: None
) -> Conformance:
    """Run all cases of ops that an accelerator takes; nothing it raises leaves this function."""
    rng, counts, failures = np.random.default_rng(0), Counter[str](), list[Failure]()
    for case in _op_cases(rng):
        progress(case.title)
        problem = _guarded(partial(_op_by_op, accelerator, case, counts))
        failures += [Failure(case.title, problem)] if problem else []
    for case in _models(rng):
        labels = sorted({op.label for plan in case.program.plans for op in plan.ops})
        for number in range(SUBSETS):
            refused = frozenset(label for label in labels if number and rng.random() < 0.4)
            title = f"{case.title}, {len(refused)} of {len(labels)} ops refused"
            progress(title)
            some = Refusing(accelerator, refused)
            problem = _guarded(partial(_whole_steps, some, case))
            failures += [Failure(title, problem)] if problem else []
    return Conformance(dict(counts), tuple(failures))


def _beside_cpp(accelerator: Accelerator, case: _Case) -> SplitExecutor:
    program, weights = case.program, case.weights
    return split_executor(
        accelerator, program, weights, lambda cut: CpuExecutor(program, weights, 1, beside=cut)
    )


def _guarded(check: Callable[[], str]) -> str:
    try:
        return check()
    except LlmLiteError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _op_by_op(accelerator: Accelerator, case: _Case, counts: Counter[str]) -> str:
    """Return what differs from NumPy, or "": op by op, then over whole steps. What it takes is
    counted by op."""
    names = {op.name for p in case.program.plans for op in p.ops if takes(accelerator, op, p)}
    counts.update(names)
    if not names:
        return ""
    both = _beside_cpp(accelerator, case)
    numpy = NumpyExecutor(case.program, case.weights)
    try:
        for step in _steps(1, 2, MOST):
            found = compare(numpy, both, step)
            if found is not None:
                return f"{step.count} tokens: {found}"
            whole, expected = both.run(step), numpy.run(step)
            if problem := _differs(whole, expected):
                return f"{step.count} tokens, the whole step: {problem}"
    finally:
        both.close()
    return ""


def _whole_steps(accelerator: Accelerator, case: _Case) -> str:
    """Return what differs from C++ alone, or "": a prompt, then token by token."""
    both = _beside_cpp(accelerator, case)
    alone = CpuExecutor(case.program, case.weights, 1)
    try:
        tokens = np.arange(MOST + 4, dtype=np.int32) * 7 % VOCABULARY
        ends = (0, MOST, *range(MOST + 1, len(tokens) + 1))
        for first, last in pairwise(ends):
            step = Step(tokens[first:last], first, 1)
            if problem := _differs(both.run(step), alone.run(step)):
                return f"tokens {first} to {last - 1}: {problem}"
    finally:
        both.close()
        alone.close()
    return ""


def _differs(found: F32, expected: F32) -> str:
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    error = np.nan_to_num(np.abs(found - expected) / scale, nan=np.inf)
    at = np.unravel_index(int(error.argmax()), error.shape)
    if error[at] <= TOLERANCE:
        return ""
    row, column = map(int, at)
    return f"the result at [{row},{column}] differs by {error[at]:.3g}, allowed {TOLERANCE:.3g}"


def _steps(*counts: int) -> Iterator[Step]:
    for count in counts:
        yield Step((np.arange(count, dtype=np.int32) * 11 + count) % VOCABULARY, 0, min(count, 2))


def _tensor(name: str, dtype: str, values: NDArray[np.floating]) -> TensorData:
    data = FORMATS[dtype].quantize(np.asarray(values, np.float32))
    return TensorData(name, dtype, values.shape, data)


def _op_cases(rng: np.random.Generator) -> Iterator[_Case]:
    for columns in COLUMNS:
        for name, build in COLUMN_CASES.items():
            yield _case(f"{name}, {columns} columns", rng, columns, build)
    for columns in (16, 96):
        for name, build in ROW_CASES.items():
            yield _case(f"{name}, {columns} columns", rng, columns, build)
    for dtype, form in FORMATS.items():
        if not form.native or form.encoder is None:
            continue
        block = max(form.block_size, 1)
        inputs = (13, 96) if block == 1 else (block, 3 * block)
        for columns, a8 in product(inputs, sorted({False, form.integers})):
            yield from (_product(rng, dtype, outputs, columns, a8=a8) for outputs in OUTPUTS)
            yield _expert_product(rng, dtype, columns, a8=a8)


def _case(
    title: str,
    rng: np.random.Generator,
    columns: int,
    build: Callable[[PlanBuilder, Tensor, Tensor], Tensor],
    *,
    a8: bool = False,
    **more: TensorData,
) -> _Case:
    """Return a case over two inputs of so many columns."""
    weights = {n: _tensor(n, "f32", rng.normal(0, 1, (VOCABULARY, columns))) for n in ("x", "y")}
    weights["w"] = _tensor("w", "f32", rng.normal(0, 1, columns))
    weights |= more
    plans = []
    for tokens in (1, MOST):
        b = PlanBuilder(weights, Bucket(tokens, min(tokens, 2)), integer_activations=a8)
        x, y = (b.embed(b.weight(name), f"{name}.rows") for name in ("x", "y"))
        plans.append(b.finish(build(b, x, y)))
    return _Case(title, weights, Program(tuple(plans), CONTEXT, VOCABULARY))


def _product(
    rng: np.random.Generator, dtype: str, outputs: int, columns: int, *, a8: bool
) -> _Case:
    weight = _tensor("product", dtype, rng.normal(0, 0.1, (outputs, columns)))
    title = f"matmul of {dtype}, {outputs} x {columns}, {'a8' if a8 else 'a32'}"

    def build(b: PlanBuilder, x: Tensor, y: Tensor) -> Tensor:
        return b.matmul(x, b.weight("product"), "out")

    return _case(title, rng, columns, build, a8=a8, product=weight)


def _expert_product(rng: np.random.Generator, dtype: str, columns: int, *, a8: bool) -> _Case:
    experts, outputs = 5, 48
    weights = {
        "experts": _tensor("experts", dtype, rng.normal(0, 0.1, (experts * outputs, columns))),
        "router": _tensor("router", "f32", rng.normal(0, 1, (experts, columns))),
    }
    title = f"expert_matmul of {dtype}, {outputs} x {columns}, {'a8' if a8 else 'a32'}"

    def build(b: PlanBuilder, x: Tensor, y: Tensor) -> Tensor:
        logits = b.matmul(y, b.weight("router"), "routed", float_inputs=True)
        chosen, shares = b.route(logits, "route", count=2)
        places, starts = b.expert_places(chosen, "places", count=experts)
        weight = b.weight("experts")
        made = b.expert_matmul(b.expert_rows(x, places, weight, "rows"), weight, starts, "made")
        return b.expert_sum(made, places, shares, "out")

    return _case(title, rng, columns, build, a8=a8, **weights)


def _models(rng: np.random.Generator) -> Iterator[_Case]:
    """Yield small decoders in the formats that most models have."""
    for dtype, a8 in (("f32", False), ("f16", False), ("int8", True), ("int4", True)):
        weights = _decoder_weights(rng, dtype)
        plans = tuple(_decoder(weights, tokens, a8=a8) for tokens in (1, MOST))
        yield _Case(f"a decoder in {dtype}", weights, Program(plans, CONTEXT, VOCABULARY))


def _decoder_weights(rng: np.random.Generator, dtype: str) -> Weights:
    sizes = {"embedding": (VOCABULARY, WIDTH), "norm": (WIDTH,)}
    for layer in range(LAYERS):
        sizes |= {f"{layer}.{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "o")}
        sizes |= {f"{layer}.{name}": (2 * WIDTH, WIDTH) for name in ("gate", "up")}
        sizes |= {f"{layer}.down": (WIDTH, 2 * WIDTH)}
    return {
        name: _tensor(name, dtype if "." in name else "f32", rng.normal(0, size[-1] ** -0.5, size))
        for name, size in sizes.items()
    }


def _decoder(weights: Weights, tokens: int, *, a8: bool) -> Plan:
    b, dim = PlanBuilder(weights, Bucket(tokens, 1), integer_activations=a8), WIDTH // HEADS
    gains = b.state("gains", "f32", (LAYERS, HEADS), fill=1.0)
    x = b.embed(b.weight("embedding"), "embedding.rows")
    for layer in range(LAYERS):
        at = f"{layer}."
        h = b.rms_norm(x, b.weight("norm"), 1e-5, at + "norm")
        q, k, v = (b.matmul(h, b.weight(at + n), f"{at}{n}.out") for n in ("q", "k", "v"))
        q, k = (
            b.rope(t, f"{t.name}.rope", head_dim=dim, rotary_dim=dim, theta=1e4) for t in (q, k)
        )
        keys, values = (b.state(at + n, "f32", (CONTEXT, WIDTH)) for n in ("keys", "values"))
        b.store([(k, keys), (v, values)], at + "store")
        y = b.attention(
            q, keys, values, gains, at + "attention",
            layer=layer, heads=HEADS, kv_heads=HEADS, head_dim=dim,
        )  # fmt: skip
        x = b.add(x, b.matmul(y, b.weight(at + "o"), at + "o.out"), at + "sum")
        h = b.rms_norm(x, b.weight("norm"), 1e-5, at + "norm.2")
        gate, up = (b.matmul(h, b.weight(at + n), f"{at}{n}.out") for n in ("gate", "up"))
        y = b.silu_mul(gate, up, at + "act")
        x = b.layer_end(b.add(x, b.matmul(y, b.weight(at + "down"), at + "down.out"), at + "end"))
    h = b.rms_norm(b.output_rows(x, "last"), b.weight("norm"), 1e-5, "norm.out")
    return b.finish(b.matmul(h, b.weight("embedding"), "logits", float_inputs=True))
