"""Small programs, run on the Vulkan executor beside NumPy."""

import numpy as np

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.weight_blocks import encoded

VOCABULARY = 37
BLOCKS = tuple(name for name, form in FORMATS.items() if form.integers)
VECTORS = Tuning(vector_tokens=4)  # lanes are elements of a processor's vectors


def weight(name, shape, dtype="f32", seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)
    return TensorData(name, dtype, shape, encoded(dtype, values, seed))


def are_whole_words(types, columns):
    """Tell whether heads of so many columns can be cached in these types."""
    return columns % max(WHOLE_WORDS.get(dtype, 1) for dtype in types) == 0


def program(tensors, ops, *, tokens, outputs=1, integer=False, context=64):
    """`ops(builder, x)` adds ops after an embedding and returns the last tensor."""
    weights = {tensor.name: tensor for tensor in tensors}
    builder = PlanBuilder(weights, Bucket(tokens, outputs), integer_activations=integer)
    x = builder.embed(builder.weight("table"), "embed")
    last = ops(builder, x)
    return Program((builder.finish(last),), context, last.shape[1]), weights


def steps(count, outputs=1, start=0):
    tokens = np.random.default_rng(count).integers(0, VOCABULARY, count).astype(np.int32)
    return Step(tokens, start, outputs)


def check(make, built, *all_steps, tuning=None, tolerance=2e-4):
    """Run the steps in lockstep on both executors, then at once; nothing may differ."""
    model, weights = built
    reference = NumpyExecutor(model, weights)
    executor = make(model, weights, tuning=tuning)
    for step in all_steps:
        assert compare(reference, executor, step) is None
        expected = reference.run(step)
        np.testing.assert_allclose(executor.run(step), expected, atol=tolerance, rtol=0)
