"""Maps by loops, and what the running model shows of itself while it runs, cut back and closed."""

import math
import threading
import time

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec import reference
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.generation.session import Session
from llm_lite.core.inspect.attention import AttentionSource, layer_probabilities
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, chat_pages
from tests.children import PATIENCE
from tests.runners import BACKENDS, exact, running

CHUNK, RING = 4, PAGE
BEFORE = RING - 7  # positions before those of a test: seven of its own are kept
CONTEXT = BEFORE + 24


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("window", [0, 1, 3, 50])
@pytest.mark.parametrize("softcap", [0.0, 0.4])
@pytest.mark.parametrize("sink", [-math.inf, 0.3, 5.0])
def test_probabilities(window, dtype, softcap, sink):
    rng = np.random.default_rng(0)
    q, k = rng.normal(0, 1, (3, 5)).astype(dtype), rng.normal(0, 1, (9, 5)).astype(dtype)
    positions = np.array([0, 7, 4])
    sinks = () if sink == -math.inf else (sink,)
    layer = AttentionLayer("q", "k", 1, 1, 5, 0.3, window, softcap=softcap, sinks=sinks)
    found = layer_probabilities(layer, 0, q, k, positions)
    expected = np.zeros((3, 9))
    for row, position in enumerate(positions.tolist()):
        seen = [p for p in range(position + 1) if window == 0 or p > position - window]
        dots = [sum(map(lambda a, b: float(a) * float(b), q[row], k[p])) * 0.3 for p in seen]
        if softcap:
            dots = [softcap * math.tanh(dot / softcap) for dot in dots]
        total = sum(map(math.exp, [*dots, sink]))
        expected[row, seen] = [math.exp(dot) / total for dot in dots]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_probabilities_of_large_scores():
    q, k = np.full((1, 2), 1e4, np.float32), np.array([[1e4, 1e4], [0, 0]], np.float32)
    layer = AttentionLayer("q", "k", 1, 1, 2, 1.0, 0)
    assert layer_probabilities(layer, 0, q, k, np.array([1])).tolist() == [[1, 0]]


@pytest.mark.parametrize(("softcap", "sinks"), [(0.0, ()), (0.4, ()), (0.4, (0.7,))])
def test_maps_are_the_weights_of_the_op(softcap, sinks):
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(0, 1, (6, 5)).astype(np.float32) for _ in range(3))
    sizes = {"scale": 0.7, "window": 4, "softcap": softcap}
    own = {"sinks": np.array(sinks, np.float32) if sinks else None}
    heads = {"heads": 1, "kv_heads": 1, "head_dim": 5, "layer": 0}
    y = reference.attention(q, k, v, np.ones((1, 1), np.float32), 0, **heads, **sizes, **own)
    layer = AttentionLayer("q", "k", 1, 1, 5, **sizes, sinks=sinks)
    maps = layer_probabilities(layer, 0, q, k, np.arange(6))
    np.testing.assert_allclose(maps @ v, y, atol=1e-6)


@pytest.fixture(scope="module")
def parts(tiny_llama):
    """Programs whose ring is shorter than the context, and as long; weights."""
    with running(tiny_llama) as runner:
        buckets = (Bucket(1, 1), Bucket(CHUNK, CHUNK))
        pages = chat_pages(CONTEXT, CHUNK)
        options = [
            BuildOptions(CONTEXT, "f32", "f32", "f32", False, buckets, rows, pages=pages)
            for rows in (RING, CONTEXT)
        ]
        model_file = runner.model_file
        yield [model_file.model.build(o) for o in options], model_file.file.tensors


def source_of(parts, ring=0):
    executor = NumpyExecutor(parts[0][ring], parts[1])
    return AttentionSource(executor, Session(executor))


def session_of(source):
    return source._session


def check_rows(parts, source):
    """Every row that is said to be kept is what a fresh run from the start computes there."""
    fresh = source_of(parts, 1)
    session_of(fresh).prefill(source.tokens())
    assert fresh.rows == range(source.length)
    for layer in range(len(source.layers)):
        ring, all_queries = (each.host_queries(layer).view("f4") for each in (source, fresh))
        keys, all_keys = (each.host_keys(layer).view("f4") for each in (source, fresh))
        for position in source.rows:
            close = {"atol": 1e-5, "err_msg": f"query of position {position}"}
            np.testing.assert_allclose(ring[position % RING], all_queries[position], **close)
        np.testing.assert_allclose(keys[: source.length], all_keys[: source.length], atol=1e-5)


def test_the_rows_kept_are_those_that_are_told(parts):
    source = source_of(parts)
    session, rng = session_of(source), np.random.default_rng(5)
    versions = [source.version]
    assert (source.rows, source.length, source.tokens()) == (range(0), 0, ())
    before = rng.integers(3, 300, BEFORE).tolist()
    for common, count, decoded in [(0, 3, 0), (3, 6, 3), (2, 4, 1), (0, 18, 2), (16, 2, 0)]:
        own = source.tokens()[BEFORE:]
        prompt = [*before, *own[:common], *rng.integers(3, 300, count).tolist()]
        session.prefill(prompt)
        for token in range(decoded):
            session.decode(token)
        assert source.length == len(source.tokens()) == len(prompt) + decoded
        assert source.rows.stop == source.length
        assert source.version > versions[-1]
        versions.append(source.version)
        check_rows(parts, source)
    assert source.rows == range(13, BEFORE + 18), "20 more left 13 and on; 2 less, 13 still there"
    session.clear()
    assert (source.rows, source.length) == (range(0), 0)


def test_a_cancelled_step_takes_the_rows_it_wrote_over(parts):
    source = source_of(parts)
    session = session_of(source)
    prompt = list(range(3, 3 + BEFORE + 9))
    session.prefill(prompt)
    assert source.rows == range(2, BEFORE + 9)
    stops = iter([False] * 30)  # in the middle of the next chunk, after its queries are stored
    with pytest.raises(CancelledError):
        session.prefill([*prompt, 7, 8, 9], lambda: next(stops, True))
    assert source.length == BEFORE + 9
    assert source.rows == range(5, BEFORE + 9)
    check_rows(parts, source)


def test_closing_waits_for_whoever_holds(parts):
    source = source_of(parts)
    session_of(source).prefill([5, 6, 7])
    closed = threading.Event()

    def close():
        source.close()
        closed.set()

    with source.hold() as alive:
        assert alive
        threading.Thread(target=close).start()
        time.sleep(0.05)
        assert not closed.is_set()
    assert closed.wait(PATIENCE)
    with source.hold() as alive:
        assert not alive
    assert source.host_keys(0) is None
    assert source.host_queries(0) is None


@pytest.mark.parametrize("kv", ["fp16", "fp32"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_executor_shows_the_same(tiny_llama, backend, kv, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    prompt = list(range(40, 70))
    shown = []
    for name in ("numpy", backend):
        used = device if name == "vulkan" else None
        with running(tiny_llama, exact(name, keys=kv, values=kv), device=used) as runner:
            runner.session.prefill(prompt)
            runner.session.decode(9)
            source = runner.attention
            assert (source.ring_rows, source.dtype) == (128, {"fp16": "f16", "fp32": "f32"}[kv])
            rows = [_rows(source, layer) for layer in range(len(source.layers))]
            assert source.bytes == sum(q.nbytes for q, _ in rows)
            shown.append(rows)
    for (q, k), (found_q, found_k) in zip(*shown, strict=True):
        for expected, found in ((q, found_q), (k, found_k)):
            assert found.shape == expected.shape
            assert np.abs(expected[:31].astype(np.float32)).max() > 0.1
            assert not found[31:].any()
            np.testing.assert_allclose(
                found.astype(np.float32), expected.astype(np.float32), atol=3e-3, rtol=0
            )


def _rows(source, layer):
    shape, kind = source.layers[layer], {"f16": np.float16, "f32": np.float32}[source.dtype]
    if (queries := source.host_queries(layer)) is not None:
        assert source.device_queries(layer) is None
        return queries.copy().view(kind), source.host_keys(layer).copy().view(kind)
    found = []
    for place, heads in (
        (source.device_queries(layer), shape.heads),
        (source.device_keys(layer), shape.kv_heads),
    ):
        buffer, offset, size = place
        values = buffer.download(offset, size).view(kind)
        found.append(values.reshape(-1, heads * shape.head_dim))
    return tuple(found)


def test_no_budget_no_queries(tiny_llama):
    with running(tiny_llama, exact(query_budget=0)) as runner:
        source = runner.attention
        runner.session.prefill([5, 6, 7])
        assert (source.ring_rows, source.bytes, source.rows) == (0, 0, range(0))
        assert source.host_queries(0) is None
        assert source.host_keys(0) is not None
        assert "memory budget is 0" in source.note
