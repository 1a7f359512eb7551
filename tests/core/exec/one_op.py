"""Plans of one op, run by the C++ executor beside NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import available_isas
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.weight_blocks import encoded

TOKENS = (1, 2, 3, 5, 17)
CONTEXT = 200
VOCABULARY = 40
FLOATS, BLOCKS, TILES = (
    tuple(name for name, form in FORMATS.items() if form.layout == layout and form.native)
    for layout in ("values", "rows", "tiles")
)
ISAS = available_isas()  # builds of the kernels
EVERY_ISA = pytest.mark.parametrize("isa", ISAS)

Weights = dict[str, TensorData]


def weight(name: str, dtype: str, values: NDArray[np.floating]) -> TensorData:
    data = encoded(dtype, np.asarray(values, np.float32))
    return TensorData(name, dtype, values.shape, data)


class OneOp:
    """A plan of embeddings, which supply any inputs, and the op under test."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights: Weights = {}
        self.build: Callable[[PlanBuilder], Tensor] = lambda b: self.input(b, "x")

    def random(self, name: str, *shape: int, dtype: str = "f32", scale: float = 1.0) -> None:
        self.weights[name] = weight(name, dtype, self.rng.normal(0, scale, shape))

    def inputs(self, columns: int, *names: str, scale: float = 1.0) -> None:
        for name in names:
            self.random(name, VOCABULARY, columns, scale=scale)

    @staticmethod
    def input(b: PlanBuilder, name: str) -> Tensor:
        return b.embed(b.weight(name), f"{name}.rows")

    def program(self, *, a8: bool = False, outputs: int = 1) -> Program:
        buckets = [Bucket(1, 1), Bucket(max(TOKENS), outputs)]
        plans = []
        for bucket in buckets:
            builder = PlanBuilder(self.weights, bucket, integer_activations=a8)
            plans.append(builder.finish(self.build(builder)))
        return Program(tuple(plans), CONTEXT, VOCABULARY)


def max_error(
    program: Program, weights: Weights, step: Step, cpu: CpuExecutor, reference: NumpyExecutor
) -> float:
    """Op by op, relative to the larger of 1 and the largest value; NaN counts as infinite."""
    plan = program.plan_for(step.count, step.outputs)
    worst = 0.0
    for index, op in enumerate(plan.ops):
        reference.run_ops(plan, step, index, index + 1)
        cpu.run_ops(plan, step, index, index + 1)
        for output in (plan.tensors[i] for i in op.outputs):
            expected = reference.read(plan, output, step)
            found = cpu.read(plan, output, step)
            assert found.shape == expected.shape
            scale = max(1.0, float(np.abs(expected).max()))
            error = np.nan_to_num(np.abs(found - expected) / scale, nan=np.inf)
            worst = max(worst, float(error.max()))
            if output.dtype != "a8":
                cpu.write(plan, output, step, expected)
    return worst


def steps(rng: np.random.Generator, starts: tuple[int, ...] = (0,)) -> Iterator[Step]:
    for tokens, start in product(TOKENS, starts):
        yield Step(rng.integers(0, VOCABULARY, tokens).astype(np.int32), start)


def check(case: OneOp, isa: str, tolerance: float, *, a8: bool = False, threads: int = 2) -> None:
    program = case.program(a8=a8)
    cpu = CpuExecutor(program, case.weights, threads, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for step in steps(case.rng, (0, 41)):
        error = max_error(program, case.weights, step, cpu, reference)
        assert error <= tolerance, f"{step.count} tokens at {step.start}: {error:.3g}"
    cpu.close()
