"""Steps of drafted tokens that fork: each path has the bits of a step a token, wherever it lies."""

import numpy as np
import pytest

from llm_lite.core.plan.step import Fork
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_stepwise import DEPTHS, FAMILIES, states, step_of
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.pairs import tiered_pairs
from tests.runners import BACKENDS, exact, running

# Tokens that both paths have, further ones of the first path, those of the branch
SHAPES = ((1, 1, 1), (1, 3, 2), (3, 2, 3), (2, 1, 5))


def singly(session, start, text):
    """Logits and rows behind the first `start` tokens of a text, a step a token."""
    session.clear()
    session.prefill(text[:start])
    logits = np.stack([session.decode(token) for token in text[start:]])
    return logits, states(session.executor, range(start, len(text)))


def check_trees(runner, depths, shapes=SHAPES):
    session, random = runner.session, np.random.default_rng(6)
    for depth in depths:
        for trunk, rest, more in shapes:
            count = depth + trunk + rest + more
            tokens = random.integers(3, runner.model_info.vocabulary, count).tolist()
            fork = depth + trunk
            first, branch = tokens[: fork + rest], tokens[:fork] + tokens[fork + rest :]
            expected, rows = singly(session, depth, first)
            other, other_rows = singly(session, depth, branch)
            session.clear()
            session.prefill(tokens[:depth])
            step = step_of(session, tokens[depth:], stepwise=True)
            step = replace(step, fork=Fork(trunk, trunk + rest))
            found = session.executor.run(step)
            assert np.array_equal(found[: trunk + rest], expected), (depth, trunk, rest)
            assert np.array_equal(found[trunk + rest :], other[trunk:]), (depth, trunk, rest, more)
            assert states(session.executor, range(depth, len(first))) == rows
            session.executor.move_rows(len(first), fork, more)
            assert states(session.executor, range(depth, len(branch))) == other_rows


@tiered_pairs("name, backend, depth, shape", FAMILIES, BACKENDS, DEPTHS, SHAPES)
def test_families(name, backend, depth, shape, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    family = family_of(name)
    path = write_case(family, next(iter(family.cases)), tmp_path)
    with running(path, exact(backend, speculate="lookup"), device=device) as runner:
        check_trees(runner, (depth,), (shape,))


@pytest.mark.parametrize("backend", ("cpu", "vulkan"))
@pytest.mark.parametrize("kv", ("fp32", "int8", "int4"))
def test_types_of_caches(kv, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path = write_tiny_llama(tmp_path / "m.gguf", seed=4)
    options = exact(backend, speculate="lookup", mode="int4", activations="a8")
    options = replace(options, keys=kv, values=kv)
    with running(path, options, device=device) as runner:
        check_trees(runner, depths=(1, 20))


def test_heads_of_large_groups(tmp_path):
    """They become a block: test_stepwise.py."""
    path = write_tiny_llama(tmp_path / "m.gguf", heads=24, kv_heads=2, head_dim=16)
    with running(path, exact("cpu", speculate="lookup", threads=2)) as runner:
        check_trees(runner, depths=(1, 40))


@pytest.mark.parametrize("kv", ("fp16", "int4"))
def test_long_contexts(kv, long_llama):
    """Forks within a block of positions, at its end, and where positions are cut into parts."""
    options = exact("cpu", speculate="lookup", activations="a8", context=2048, threads=2)
    options = replace(options, keys=kv, values=kv)
    with running(long_llama, options) as runner:
        check_trees(runner, (126, 250, 1021, 1800), ((2, 5, 4), (3, 12, 16)))
