"""The moments of matrices' inputs are those that the definition of the model gives."""

import numpy as np
import pytest

from llm_lite.core.convert import calibration
from llm_lite.core.convert.calibration import chunks_of, collect
from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

TOKENS = [(7 * i * i + i) % 300 for i in range(96)]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("m") / "tiny.gguf", seed=5)
    with running(path, exact(context=64), every_output=True) as found:
        yield found


def by_hand(executor: NumpyExecutor, chunks):
    """Sums of x x^T over all tokens, one token a step."""
    plan = executor.program.plans[0]
    sums = {}
    for chunk in chunks:
        for at, token in enumerate(chunk):
            step = executor.program.step([token], at)
            for number, op in enumerate(plan.ops):
                if op.name == "matmul":
                    x = executor.read(plan, plan.tensors[op.inputs[0]], step).astype(np.float64)
                    name = plan.tensors[op.inputs[1]].name
                    sums[name] = sums.get(name, 0) + x.T @ x
                executor.run_ops(plan, step, number, number + 1)
    return sums


def test_moments_are_those_of_every_token(runner):
    chunks = [TOKENS[:40], TOKENS[40:]]
    moments = collect(runner.executor, chunks)
    assert moments.tokens == 96
    expected = by_hand(runner.executor, chunks)
    assert moments.of_matrix.keys() == expected.keys()
    for name, moment in moments.of_matrix.items():
        assert np.allclose(moment * 96, expected[name], rtol=1e-4, atol=1e-4), name


def test_matrices_of_one_input_share_a_moment(runner):
    of = collect(runner.executor, [TOKENS[:64]]).of_matrix
    assert of["blk.0.attn_q.weight"] is of["blk.0.attn_v.weight"]
    assert of["blk.0.ffn_gate.weight"] is of["blk.0.ffn_up.weight"]
    assert of["blk.0.attn_q.weight"] is not of["blk.1.attn_q.weight"]


def test_tied_embeddings_are_tables_too(runner):
    moments = collect(runner.executor, [TOKENS[:64]])
    assert moments.tables == {"token_embd.weight"}
    assert "token_embd.weight" in moments.of_matrix


def test_wide_inputs_keep_the_diagonal_only(runner, monkeypatch):
    whole = collect(runner.executor, [TOKENS[:64]]).of_matrix
    monkeypatch.setattr(calibration, "LARGEST_FULL", 64)
    narrow = collect(runner.executor, [TOKENS[:64]]).of_matrix
    sizes = {name: moment.shape for name, moment in narrow.items()}
    assert any(len(shape) == 1 for shape in sizes.values())
    for name, moment in narrow.items():
        full = whole[name]
        expected = full if full.shape[0] <= 64 else np.diag(full)
        assert np.allclose(moment, expected, rtol=1e-4, atol=1e-6)


def test_a_short_text_is_refused(runner):
    with pytest.raises(RequestError, match="has 63 tokens, expected at least 64"):
        collect(runner.executor, [TOKENS[:63]])


def test_progress_ends_at_one_and_may_cancel(runner):
    told = []
    collect(runner.executor, [TOKENS[:48], TOKENS[48:]], told.append)
    assert told == sorted(told)
    assert told[-1] == 1

    def cancel(fraction):
        raise CancelledError("no")

    with pytest.raises(CancelledError):
        collect(runner.executor, [TOKENS[:64]], cancel)


def test_chunks_are_spread_over_the_text():
    tokens = list(range(1000, 1000 + 512 * 100))
    chunks = chunks_of(tokens, None, 512)
    assert len(chunks) <= calibration.MOST_CHUNKS
    assert all(len(chunk) == 512 for chunk in chunks)
    assert chunks[0][0] == 1000
    assert chunks[-1][0] > tokens[-1] - 512 * 8
    assert len({chunk[0] for chunk in chunks}) == len(chunks)


def test_every_chunk_begins_as_the_text_does():
    chunks = chunks_of([1, *range(10, 1400)], 1, 512)
    assert [chunk[0] for chunk in chunks] == [1] * len(chunks)
    assert [chunk[1] for chunk in chunks] == [10, 10 + 511]
    assert chunks_of([5, 6, 7], 1, 512) == [[5, 6, 7]]
    assert chunks_of([], 1, 512) == [[]]
