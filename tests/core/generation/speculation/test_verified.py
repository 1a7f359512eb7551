"""Steps of drafted tokens give the bits of a step a token: logits, caches and kept queries."""

import numpy as np
import pytest

from llm_lite.core.plan.plan import Kind
from llm_lite.core.records import replace
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.pairs import tiered_pairs
from tests.runners import BACKENDS, exact, running

# Windows, caps, biases by distance, learned positions, norms of heads, scaled residuals
FAMILIES = ("llama", "gemma2", "gemma3", "gpt2", "bloom", "qwen3", "granite", "olmo2")
DEPTHS = (1, 7, 30)  # tokens before the drafted ones
DRAFTED = 7


def states(executor, rows):
    """Of all layers, the rows of these positions: bytes."""
    plan = executor.program.plans[0]
    kept = [t for t in plan.tensors if t.kind is Kind.STATE and t.shape[0] >= rows.stop]
    return {t.name: executor.read_state(t.name, rows.start, len(rows)).tobytes() for t in kept}


def check_bits(runner, depths=DEPTHS, drafted=DRAFTED):
    session = runner.session
    random = np.random.default_rng(5)
    for depth in depths:
        tokens = random.integers(3, runner.model_info.vocabulary, depth + drafted + 1).tolist()
        rows = range(depth, depth + drafted + 1)
        session.clear()
        session.prefill(tokens[:depth])
        singly = np.stack([session.decode(token) for token in tokens[depth:]])
        expected = states(session.executor, rows)
        for count in (2, 3, 5, drafted + 1):
            session.clear()
            session.prefill(tokens[:depth])
            some = tokens[depth : depth + count]
            found = session.executor.run(session.step_by_step(some, depth))
            assert np.array_equal(found, singly[:count]), (depth, count)
        assert states(session.executor, rows) == expected, depth


@tiered_pairs("name, backend, depth", FAMILIES, BACKENDS, DEPTHS)
def test_families(name, backend, depth, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    family = family_of(name)
    path = write_case(family, next(iter(family.cases)), tmp_path)
    with running(path, exact(backend, speculate="lookup"), device=device) as runner:
        check_bits(runner, depths=(depth,))


@tiered_pairs(
    "mode, activations, backend",
    *(("fp32", "fp16", "int8", "int4"), ("a32", "a8"), ("cpu", "vulkan")),
)
def test_weights_and_activations(mode, activations, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path = write_tiny_llama(tmp_path / "m.gguf", seed=4)
    options = exact(backend, speculate="lookup", mode=mode, activations=activations, keys="fp16")
    with running(path, options, device=device) as runner:
        check_bits(runner, depths=(1, 20))


def test_heads_of_large_groups(tmp_path):
    """More heads than a row of queries takes share a key: several of them become a block, one by
    itself does not."""
    path = write_tiny_llama(tmp_path / "m.gguf", heads=24, kv_heads=2, head_dim=16)
    with running(path, exact("cpu", speculate="lookup", threads=2)) as runner:
        check_bits(runner)


@pytest.mark.parametrize("kv", ("fp16", "int8", "int4"))
def test_long_contexts_and_long_drafts(kv, long_llama):
    """Positions of one token are shared by several threads from some hundreds on, and from more
    than a thousand all of its heads read them in one stream."""
    options = exact("cpu", speculate="lookup", activations="a8", context=2048, threads=2)
    options = replace(options, keys=kv, values=kv)
    with running(long_llama, options) as runner:
        check_bits(runner, depths=(250, 1010, 1100, 1800), drafted=31)
