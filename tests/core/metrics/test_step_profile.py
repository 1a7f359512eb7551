"""Profiles of a step: what they count, and that the cache does not notice."""

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.metrics.step_profile import profile_step
from llm_lite.core.plan.plan import Kind
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running


def quiet(stage, fraction):
    pass


def caches(runner):
    executor = runner.executor
    found = {}
    for tensor in executor.program.plans[0].tensors:
        if tensor.kind is Kind.STATE:
            found[tensor.name] = executor.read_state(tensor.name, 0, tensor.shape[0]).copy()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tokens", [1, 7])
def test_a_profile_leaves_the_cache_as_it_is(tmp_path, backend, tokens):
    source = write_tiny_llama(tmp_path / "tiny.gguf")
    with running(source, exact(backend)) as runner:
        runner.session.prefill([1, 2, 3, 4, 5])
        before = caches(runner)
        profile = profile_step(runner, tokens, quiet)
        after = caches(runner)
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)
        assert runner.session.tokens() == (1, 2, 3, 4, 5)
        plan = runner.executor.program.plan_for(tokens, 1)
        assert [op.label for op in profile.ops] == [op.label for op in plan.ops]
    assert (profile.tokens, profile.depth) == (tokens, 5)
    assert all(op.seconds >= 0 for op in profile.ops)
    assert sum(op.seconds for op in profile.ops) > 0
    assert profile.seconds > 0


def test_what_a_token_reads(tmp_path):
    """All matrices but the embedding, of which one row; keys and values of what it attends to."""
    source = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f32")
    with running(source, exact("cpu")) as runner:
        empty = profile_step(runner, 1, quiet)
        runner.session.prefill(list(range(1, 11)))
        later = profile_step(runner, 1, quiet)
        info = runner.model_info
        weights = {tensor.name: tensor for tensor in runner.model_file.file.tensors.values()}
    matrices = sum(t.nbytes for t in weights.values())
    assert empty.read_bytes == pytest.approx(matrices, rel=0.1)
    assert later.read_bytes - empty.read_bytes == 10 * info.kv_bytes // info.context


def test_a_step_at_the_end_of_the_context(tmp_path):
    source = write_tiny_llama(tmp_path / "tiny.gguf")
    with running(source, exact("cpu")) as runner:
        profile = profile_step(runner, 10_000, quiet)
        assert profile.depth + profile.tokens <= runner.session.context


def test_it_can_be_stopped(tmp_path):
    def stop(stage, fraction):
        raise CancelledError("stopped")

    source = write_tiny_llama(tmp_path / "tiny.gguf")
    with running(source, exact("cpu")) as runner, pytest.raises(CancelledError):
        profile_step(runner, 1, stop)
