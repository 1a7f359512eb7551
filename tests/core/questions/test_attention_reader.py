"""Rows, columns and rollout against the maps' definition, as the text grows, changes and wraps."""

import math

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import (
    AttentionRows,
    Logged,
    ReadAttentionRows,
    SetInterventions,
    TokenDecoded,
)
from llm_lite.core.questions import attention_reader
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.runner_replay import Readers, RunnerReplay
from llm_lite.core.records import replace
from tests.changes import scales
from tests.core.engine.test_step_requests import Client, at_step
from tests.core.engine_client import PATIENCE
from tests.core.inspect.test_attention import CHUNK, RING, parts, session_of, source_of  # noqa: F401
from tests.fixtures.seq2seq import t5
from tests.runners import BACKENDS, exact, running
from tests.seq2seq_checks import stored
from tests.seq2seq_checks import write_case as write_seq2seq

LOCKED = ((0, 1), (1, 3), (1, 0))


def whole_maps(source):
    """[layers, heads, n, n], each by its definition; all rows must be kept."""
    n = source.length
    assert source.rows == range(n)
    maps = np.zeros((len(source.layers), source.layers[0].heads, n, n), np.float32)
    for layer, shape in enumerate(source.layers):
        head_maps(source, layer, range(shape.heads), maps[layer])
    return maps


def rollout_of(maps, without_first=False):
    n = maps.shape[-1]
    product = np.eye(n)
    for layer in maps.astype(np.float64):
        mean = layer.mean(axis=0)
        if without_first:
            mean[1:, 0] = 0
            mean /= mean.sum(axis=1, keepdims=True)
        product = (mean + np.eye(n)) / 2 @ product
    return product


def put_cap(source, softcap):
    """Says of all layers that their scores are capped."""
    source.layers = tuple(replace(layer, softcap=softcap) for layer in source.layers)


def expected_map(maps, mode):
    if mode == "rollout":
        return rollout_of(maps)
    if mode == "layer-mean":
        return maps[1].mean(axis=0)
    return np.mean([maps[at] for at in LOCKED], axis=0)


def ask(reader, mode, position, direction):
    look = ReadAttentionRows(position, direction, mode, LOCKED if mode == "heads" else (), 1)
    looked = reader.read(look)
    assert (looked.position, looked.direction) == (position, direction)
    return np.array(looked.weights), looked.note


@pytest.mark.parametrize("kv", ["fp16", "fp32"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_and_columns_are_those_of_the_maps(tiny_llama, backend, kv, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    with running(tiny_llama, exact(backend, keys=kv, values=kv), device=device) as runner:
        runner.session.prefill(list(range(40, 75)))
        runner.session.decode(9)
        source, reader = runner.attention, AttentionRowsReader(runner.attention)
        maps = whole_maps(source)
        for mode in ("heads", "layer-mean", "rollout"):
            expected = expected_map(maps, mode)
            for position in (0, 17, source.length - 1):
                row, note = ask(reader, mode, position, "from")
                np.testing.assert_allclose(row, expected[position], atol=2e-6)
                assert math.isclose(row.sum(), 1, abs_tol=1e-5)
                column, unsaid = ask(reader, mode, position, "to")
                np.testing.assert_allclose(column, expected[:, position], atol=2e-6)
                assert note == unsaid == ""


def test_rows_of_capped_scores_are_those_of_the_maps(parts):  # noqa: F811
    source = source_of(parts, 1)
    session_of(source).prefill(list(range(5, 17)))
    plain = whole_maps(source)
    put_cap(source, 0.02)
    reader, maps = AttentionRowsReader(source), whole_maps(source)
    for mode in ("heads", "layer-mean", "rollout"):
        expected = expected_map(maps, mode)
        for direction, weights in (("from", expected[11]), ("to", expected[:, 3])):
            found = ask(reader, mode, 11 if direction == "from" else 3, direction)[0]
            np.testing.assert_allclose(found, weights, atol=2e-6)
        assert np.abs(expected - expected_map(plain, mode)).max() > 1e-3, "no cap is seen"


def test_rollout_follows_a_text_that_grows_and_changes(parts):  # noqa: F811
    source = source_of(parts, 1)
    session, reader, rng = session_of(source), AttentionRowsReader(source), np.random.default_rng(3)
    for common, count, decoded in [(0, 3, 0), (3, 6, 3), (2, 4, 1), (0, 18, 2), (16, 2, 0)]:
        session.prefill([*source.tokens()[:common], *rng.integers(3, 300, count).tolist()])
        for token in range(decoded):
            session.decode(token)
        expected = rollout_of(whole_maps(source))
        last = source.length - 1
        np.testing.assert_allclose(
            ask(reader, "rollout", last, "from")[0], expected[last], atol=1e-6
        )
        np.testing.assert_allclose(ask(reader, "rollout", 1, "to")[0], expected[:, 1], atol=1e-6)


def test_rollout_without_the_first_token(parts):  # noqa: F811
    source = source_of(parts, 1)
    session_of(source).prefill(list(range(5, 17)))
    expected, reader = rollout_of(whole_maps(source), True), AttentionRowsReader(source)
    for position in (0, 1, 7, 11):
        for direction, weights in (("from", expected[position]), ("to", expected[:, position])):
            look = ReadAttentionRows(position, direction, "rollout", without_first=True)
            np.testing.assert_allclose(reader.read(look).weights, weights, atol=1e-6)


def test_rollout_of_the_same_text_read_with_other_gains(parts):  # noqa: F811
    source = source_of(parts, 1)
    session, reader, text = session_of(source), AttentionRowsReader(source), list(range(5, 17))
    session.prefill(text)
    before, _ = ask(reader, "rollout", 11, "from")
    session.set_gains(((0.0,) * 4, (1.0,) * 4), throughout=True)
    session.prefill(text)
    after, _ = ask(reader, "rollout", 11, "from")
    np.testing.assert_allclose(after, rollout_of(whole_maps(source))[11], atol=1e-6)
    assert np.abs(after - before).max() > 1e-4


def test_rollout_is_cut_into_pieces(parts, monkeypatch):  # noqa: F811
    monkeypatch.setattr(attention_reader, "ROLLOUT_ROWS", 3)
    source = source_of(parts, 1)
    session_of(source).prefill(list(range(5, 17)))
    reader, wanted = AttentionRowsReader(source), ReadAttentionRows(11, "from", "rollout")
    pieces = [reader.read(wanted, seconds=0.0) for _ in range(4)]
    assert pieces[:3] == [None] * 3
    whole = AttentionRowsReader(source).read(wanted)
    np.testing.assert_allclose(pieces[3].weights, whole.weights, atol=1e-6)


def test_what_the_ring_no_longer_holds(parts):  # noqa: F811
    source = source_of(parts)
    session_of(source).prefill(list(range(3, 3 + RING + 5)))
    reader, kept, complete = AttentionRowsReader(source), source.rows, source_of(parts, 1)
    session_of(complete).prefill(source.tokens())
    last = RING + 4
    assert kept == range(5, last + 1)
    expected = expected_map(whole_maps(complete), "layer-mean")
    row, _ = ask(reader, "layer-mean", kept.start, "from")
    np.testing.assert_allclose(row, expected[kept.start], atol=1e-5)
    column, note = ask(reader, "layer-mean", 1, "to")
    assert note == f"of the tokens that follow, 5 to {last} are told"
    assert not column[: kept.start].any()
    np.testing.assert_allclose(column[kept.start :], expected[kept.start :, 1], atol=1e-5)
    match = f"token 4 looks is not known: of 5 to {last} it is; a larger query memory keeps more"
    with pytest.raises(RequestError, match=match):
        reader.read(ReadAttentionRows(4, "from", "layer-mean"))
    with pytest.raises(RequestError, match="those of the first 5 are not kept"):
        reader.read(ReadAttentionRows(last, "from", "rollout"))


def test_what_was_reused_has_no_queries_and_no_memory_would_keep_them(parts):  # noqa: F811
    source = source_of(parts, 1)
    session, tokens = session_of(source), list(range(5, 15))
    session.prefill(tokens)
    # As a prefix, or a cache that was kept on disk, comes back.
    session.restore_prefix(session.copy_prefix())
    session.prefill([*tokens, 20, 21])
    assert source.rows.start >= len(tokens) - 1
    for wanted in (
        ReadAttentionRows(4, "from", "layer-mean"),
        ReadAttentionRows(11, "from", "rollout"),
    ):
        with pytest.raises(RequestError, match="not computed again") as raised:
            AttentionRowsReader(source).read(wanted)
        assert "larger" not in str(raised.value)


def test_a_column_is_cut_where_it_would_take_too_long(parts, monkeypatch):  # noqa: F811
    source = source_of(parts, 1)
    session_of(source).prefill(list(range(5, 17)))
    monkeypatch.setattr(attention_reader, "COLUMN_PAIRS", 4 * 12 * 3)
    column, note = ask(AttentionRowsReader(source), "layer-mean", 2, "to")
    assert np.flatnonzero(column).tolist() == [2, 3, 4]
    assert note == "of the tokens that follow, 2 to 4 are told"


def test_looks_that_cannot_be(parts, monkeypatch):  # noqa: F811
    source = source_of(parts, 1)
    session_of(source).prefill([5, 6, 7])
    reader = AttentionRowsReader(source)
    for look, message in (
        (
            ReadAttentionRows(3, "from", "layer-mean"),
            "position 3 is not in the cache, which holds 3 tokens",
        ),
        (ReadAttentionRows(-1, "to", "rollout"), "position -1 is not in the cache"),
        (ReadAttentionRows(0, "from", "layer-mean", layer=2), "layer 2: the model has 2 layers"),
        (ReadAttentionRows(0, "to", "heads", ((0, 4),)), "layer 0 has heads 0 to 3"),
        (ReadAttentionRows(0, "to", "heads"), "no head is chosen"),
    ):
        with pytest.raises(RequestError, match=message):
            reader.read(look)
    monkeypatch.setattr(attention_reader, "ROLLOUT_BYTES", 2 * 2 * 2 * 4)
    with pytest.raises(RequestError, match="the text has 3 tokens, and 0 MiB are enough for 2"):
        AttentionRowsReader(source).read(ReadAttentionRows(2, "from", "rollout"))


def test_without_queries(tiny_llama):
    with running(tiny_llama, exact(query_budget=0)) as runner:
        runner.session.prefill([5, 6, 7])
        with pytest.raises(RequestError, match="memory budget is 0"):
            AttentionRowsReader(runner.attention).read(ReadAttentionRows(1, "from", "layer-mean"))


def test_through_the_engine(tiny_llama):
    client = Client()
    with pytest.raises(RequestError, match=r"^no model is loaded: open one first$"):
        client.result(ReadAttentionRows(0, "from", "layer-mean"))
    client.load(tiny_llama)
    client.ask()
    looked = client.result(ReadAttentionRows(4, "from", "heads", LOCKED))
    assert (looked.position, looked.direction, looked.note) == (4, "from", "")
    assert math.isclose(sum(looked.weights), 1, abs_tol=1e-5)
    with pytest.raises(RequestError, match="position 1000000 is not in the cache"):
        client.result(ReadAttentionRows(10**6, "to", "rollout"))
    assert client.engine.close(PATIENCE)


def test_in_the_middle_of_an_answer_the_last_look_counts(monkeypatch, tiny_llama):
    client, looks = Client(), []

    def look_twice():
        looks.append(client.send(ReadAttentionRows(1, "from", "layer-mean")))
        looks.append(client.send(ReadAttentionRows(2, "from", "rollout")))
        client.send(SetInterventions(scales(((1.0,) * 4,) * 2)))

    at_step(monkeypatch, 3, look_twice)
    client.load(tiny_llama)
    client.ask()
    assert [looked.position for looked in client.of(AttentionRows)] == [2]
    with pytest.raises(RequestError, match="a newer request has taken its place"):
        looks[0].result()
    at = client.events.index(client.of(AttentionRows)[0])
    assert any(isinstance(event, TokenDecoded) for event in client.events[at:])
    assert client.engine.close(PATIENCE)


def test_a_defect_ends_the_look_and_nothing_else(monkeypatch, tiny_llama):
    def fail(*_):
        raise IndexError("planted")

    client = Client()
    client.load(tiny_llama)
    client.ask()
    with monkeypatch.context() as patch:
        patch.setattr(AttentionRowsReader, "read", fail)
        with pytest.raises(RequestError, match=r"an internal error \(IndexError\)"):
            client.result(ReadAttentionRows(1, "from", "layer-mean"))
        assert "planted" in next_error(client)
    assert client.ask()[0].stop_reason == "length"
    assert client.result(ReadAttentionRows(1, "from", "layer-mean")).position == 1
    assert client.engine.close(PATIENCE)


def next_error(client):
    while (event := client.until(Logged)).level != "error":
        pass
    return event.text


def test_the_rollout_of_one_part_is_kept(tmp_path):
    """Each may take ROLLOUT_BYTES, and an encoder-decoder has three parts."""
    known, readers = stored("t5", "plain"), Readers()
    with running(write_seq2seq(t5.FAMILY, "plain", tmp_path / "m"), exact("cpu")) as runner:
        runner.read_source(known["source"].tolist())
        runner.session.prefill(known["target"].tolist())

        def look(part, mode="rollout"):
            request = ReadAttentionRows(3, "from", mode, part=part)
            reader = RunnerReplay(runner, readers).rows_reader(request)
            return reader, reader.read(request)

        encoder, first = look("encoder")
        assert look("encoder")[0] is encoder and encoder.holds_rollout
        look("cross", "layer-mean")
        assert encoder.holds_rollout
        decoder, _ = look("decoder")
        assert decoder.holds_rollout and not encoder.holds_rollout
        assert look("encoder")[1] == first and not decoder.holds_rollout
