import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import CacheMeasured, MeasureCache
from llm_lite.core.questions import statistics
from llm_lite.core.questions.question import advance
from llm_lite.core.records import replace
from tests.asking import asked, parts_of
from tests.core.engine_client import PATIENCE, Client
from tests.make_huggingface import write_tiny_gemma3n
from tests.runners import BACKENDS, exact, running


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["fp16", "fp32"])
def test_norms_and_what_is_received(tiny_llama, device, backend, kind):
    with running(tiny_llama, exact(backend, keys=kind, values=kind), device=device) as runner:
        runner.session.prefill(list(range(40)))
        source = runner.attention
        for what in ("key-norm", "value-norm"):
            found = asked(MeasureCache(what, 5, 30), runner)
            assert (found.what, found.first) == (what, 5)
            assert found.version == runner.session.committed.version
            if what == "key-norm":
                expected = [
                    np.linalg.norm(source.keys(i).astype(np.float32).reshape(40, -1), axis=1)[5:30]
                    for i in range(2)
                ]
                np.testing.assert_allclose(found.values, expected, rtol=1e-5)
        found = asked(MeasureCache("received", 0, 40), runner)
        maps = np.zeros((4, 40, 40), np.float32)
        for layer in range(2):
            head_maps(source, layer, range(4), maps)
            expected = maps.sum(axis=(0, 1)) / 4 / (40 - np.arange(40))
            np.testing.assert_allclose(found.values[layer], expected, atol=1e-5)


def test_values_have_the_norms_of_what_was_stored(tiny_llama):
    with running(tiny_llama) as runner:
        runner.session.prefill([5, 6, 7])
        found = asked(MeasureCache("value-norm", 0, 3), runner)
        layers = runner.session.cache.layers
        rows = [runner.executor.host_state(layer.values.name)[:3] for layer in layers]
        expected = [np.linalg.norm(r.view(np.float32), axis=1) for r in rows]
        np.testing.assert_allclose(found.values, expected, rtol=1e-6)


def test_it_is_done_in_slices_and_stops_when_the_cache_is_rewritten(tiny_llama):
    with running(tiny_llama) as runner:
        session = runner.session
        session.prefill(list(range(20)))
        work = parts_of(MeasureCache("received", 0, 20), runner)
        assert advance(work, 0.0) is None, "a block of a layer at least"
        session.decode(9)
        steps = 0
        while (found := advance(work, 0.0)) is None:
            steps += 1
        assert steps > 1
        assert len(found.values[0]) == 20
        work = parts_of(MeasureCache("key-norm", 0, 20), runner)
        assert advance(work, 0.0) is None
        session.prefill([1, 2, 3])
        with pytest.raises(RequestError, match="rewritten"):
            advance(work, PATIENCE)


def test_what_takes_long_is_no_work_of_the_executor_thread(tiny_llama, monkeypatch):
    blocks = []
    monkeypatch.setattr(statistics.ReceivedAttention, "add", lambda self, one: blocks.append(one))
    with running(tiny_llama) as runner:
        runner.session.prefill(list(range(20)))
        where, seen = "executor", []
        for following in parts_of(MeasureCache("received", 0, 20), runner):
            seen.append((where, len(blocks)))
            where = following
            blocks.clear()
        assert {count for where, count in seen if where == "executor"} == {0}
        assert where == "anywhere", "numbers of a long text become a record of lists"


@pytest.mark.parametrize(("first", "last"), [(0, 0), (-1, 2), (0, 4), (2, 1)])
def test_positions_that_are_not_there(tiny_llama, first, last):
    with running(tiny_llama) as runner:
        runner.session.prefill([5, 6, 7])
        request = MeasureCache("key-norm", first, last)
        with pytest.raises(RequestError, match="not in the cache, which holds 3"):
            asked(request, runner)


def test_without_queries_nothing_is_received(tiny_llama):
    with running(tiny_llama, exact(query_budget=0)) as runner:
        runner.session.prefill([5, 6, 7])
        with pytest.raises(RequestError, match="their memory budget is 0"):
            asked(MeasureCache("received", 0, 3), runner)


def test_the_engine_answers_each_once(tiny_llama):
    client = Client()
    with pytest.raises(RequestError, match="no model is loaded"):
        client.result(MeasureCache("key-norm", 0, 1))
    client.load(tiny_llama)
    client.ask()
    first = client.send(MeasureCache("received", 0, 9))
    refused = client.send(MeasureCache("key-norm", 0, 999))
    last = client.send(MeasureCache("value-norm", 0, 9))
    seen = [client.until(CacheMeasured) for _ in range(2)]
    assert seen == [first.result(PATIENCE), last.result(PATIENCE)]
    assert [event.what for event in seen] == ["received", "value-norm"]
    with pytest.raises(RequestError, match="not in the cache"):
        refused.result(PATIENCE)
    assert len(seen[0].values[1]) == 9
    assert client.engine.close(PATIENCE)


def test_a_ring_tells_of_the_positions_it_has(tmp_path):
    """As if nothing were lost, over the rows whose keys are all there."""
    folder = write_tiny_gemma3n(tmp_path, max_position_embeddings=512)
    tokens = list(range(200))
    options = exact("cpu", context=512, speculate="off")  # drafts take rows of a ring
    with (
        running(folder, options, every_output=True) as runner,  # of smaller steps and rings
        running(folder, replace(options, whole_caches=True)) as whole,
    ):
        for one in (runner, whole):
            one.session.prefill(tokens)
        source, request = runner.attention, MeasureCache("received", 0, 200)
        found = asked(request, runner)
        cache = runner.session.cache
        assert [cache.oldest(layer) for layer in cache.layers] == [72, 72, 0, 72]
        for row, layer in enumerate(cache.layers):
            oldest, readers = cache.oldest(layer), [layer.layer, *layer.shared_with]
            first = oldest + 6 if oldest else 0
            assert {source.rows_of(reader) for reader in readers} == {range(first, 200)}
            maps = np.zeros((4, 200, 200), np.float32)
            expected = np.zeros(200)
            for reader in readers:
                head_maps(whole.attention, reader, range(4), maps)
                expected += maps[:, first:].sum(axis=(0, 1)) / 4 / len(readers)
            expected /= 200 - np.maximum(np.arange(200), first)
            values = np.array(found.values[row])
            assert np.isnan(values[:oldest]).all()
            np.testing.assert_allclose(values[oldest:], expected[oldest:], atol=1e-5)
