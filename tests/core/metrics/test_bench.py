from types import SimpleNamespace

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.metrics import bench as module
from llm_lite.core.metrics.bench import Spread, bench
from tests.runners import BACKENDS, exact, running

SIZES = {"prompt_tokens": 20, "new_tokens": 6, "depth": 10, "repeat": 3}


def test_spread():
    assert Spread.of([3.0, 1.0, 8.0]) == Spread(3.0, 1.0, 8.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rates_and_bytes(tiny_llama, device, backend):
    runs = []
    options = exact(backend, keys="fp16", values="fp16", context=64)
    with running(tiny_llama, options, device=device) as runner:
        result = bench(runner, **SIZES, progress=runs.append)
        weights = runner.executor.weight_bytes
    assert runs == [1, 2, 3]
    for spread in (result.prefill_tok_s, result.decode_tok_s):
        assert 0 < spread.min <= spread.median <= spread.max
    cached = 2 * 2 * 32 * 2 * (10 + 6 // 2)  # layers, k and v, values, bytes, half-way positions
    assert result.read_bytes_per_token == weights + cached
    assert result.read_gb_s_measured > 0.01
    share = result.decode_tok_s.median * result.read_bytes_per_token / 1e9
    assert result.bandwidth_share == pytest.approx(share / result.read_gb_s_measured)


def test_it_works_at_the_depth_asked_for(tiny_llama, monkeypatch):
    monkeypatch.setattr(module, "read_gb_s", lambda runner: 10.0)
    with running(tiny_llama) as runner:
        steps = []
        run = runner.executor.run

        def watched(step, should_stop=None):
            steps.append((step.first_position, step.count))
            return run(step, should_stop)

        runner.executor.run = watched
        bench(runner, **{**SIZES, "repeat": 1})
    prefill, depth, *decode = steps[-8:]
    assert (prefill, depth) == ((0, 20), (0, 10))
    assert decode == [(position, 1) for position in range(10, 16)]


def test_rates_are_tokens_over_seconds(tiny_llama, monkeypatch):
    """With a clock that only steps tell: a token takes a tenth of a second, a prompt's a tenth."""
    now = 0.0
    monkeypatch.setattr(module, "read_gb_s", lambda runner: 10.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    with running(tiny_llama) as runner:
        run = runner.executor.run

        def slow(step, should_stop=None):
            nonlocal now
            now += 0.1 if step.count == 1 else 0.01 * step.count
            return run(step, should_stop)

        runner.executor.run = slow
        result = bench(runner, **SIZES)
    assert result.prefill_tok_s.median == pytest.approx(100)
    assert result.decode_tok_s.median == pytest.approx(10)


@pytest.mark.parametrize("name", SIZES)
def test_too_few_of_anything(tiny_llama, name):
    with (
        running(tiny_llama) as runner,
        pytest.raises(RequestError, match=f"--{name.replace('_', '-')}: expected at least"),
    ):
        bench(runner, **{**SIZES, name: -1})


@pytest.mark.parametrize("sizes", [{"prompt_tokens": 129}, {"depth": 125}, {"new_tokens": 119}])
def test_a_context_too_small(tiny_llama, sizes):
    with running(tiny_llama) as runner, pytest.raises(RequestError, match="holds 128 tokens"):
        bench(runner, **SIZES | sizes)
