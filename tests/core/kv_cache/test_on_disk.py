import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.kv_cache.provenance import Conditions
from llm_lite.core.messages import CacheStatus, Logged, OpenCache, SaveCache
from llm_lite.core.messages.interventions import LiveChanges
from llm_lite.core.records import replace
from tests.core.engine_client import PATIENCE, Client
from tests.runners import BACKENDS, exact, running

VOCABULARY = 300
ONES = ((1.0,) * 4,) * 2


def under(changes):
    return Conditions.of("as-stored a32", changes)


@pytest.fixture(scope="module")
def runner(tiny_llama):
    with running(tiny_llama, exact(context=64)) as runner:
        runner.session.prefill(list(range(40)))
        yield runner


@pytest.fixture(scope="module")
def saved(runner, tmp_path_factory):
    path = tmp_path_factory.mktemp("caches") / "chat.kv"
    assert cache_transfer.save(runner, path) == path.stat().st_size
    assert [p.name for p in path.parent.iterdir()] == ["chat.kv"], "no part is left"
    assert os.name != "posix" or path.stat().st_mode & 0o777 == 0o600, "it has the tokens in it"
    return path


def load(runner, path, **changes):
    identity = replace(cache_transfer.identity(runner), **changes)
    return on_disk.load(path, identity, runner.session.cache, VOCABULARY)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_comes_back_is_what_was_there(tiny_llama, device, runner, saved, backend):
    with running(tiny_llama, exact(backend, context=64), device=device) as other:
        assert cache_transfer.open_saved(other, saved) == 40
        assert other.session.tokens() == tuple(range(40))
        mine, its = runner.session.copy_prefix(), other.session.copy_prefix()
        for name, rows in mine.rows.items():
            assert np.array_equal(rows.data[:40], its.rows[name].data)
        prompt = [*range(40), 7]
        assert other.session.prepare(prompt).reused == 40
        expected = runner.session.prefill(prompt)
        np.testing.assert_allclose(other.session.prefill(prompt), expected, atol=1e-4)


def test_a_rolled_cache_comes_back_with_its_gaps(tiny_llama, tmp_path):
    rolling = PrefillOptions("rolling")
    with running(tiny_llama, exact(context=32)) as runner:
        runner.session.prefill(list(range(60)), reading=rolling)
        gaps = runner.session.cache.gaps
        assert gaps
        cache_transfer.save(runner, tmp_path / "x")
        runner.session.clear()
        cache_transfer.open_saved(runner, tmp_path / "x")
        assert runner.session.cache.gaps == gaps
        assert runner.session.prepare([*range(60), 1], rolling).reused > 20


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "other"}, "another model or tokenizer"),
        (
            {"conditions": Conditions.of("int4 a8")},
            "weights: expected 'int4 a8', found 'as-stored a32'",
        ),
        ({"conditions": under(LiveChanges(((0.0,) * 4,) * 2))}, "other weights of heads"),
        ({"conditions": under(LiveChanges(ONES, ((0, (1.0,)),)))}, "layers were shifted otherwise"),
    ],
)
def test_a_cache_of_another(runner, saved, changes, words):
    with pytest.raises(FileError, match=words):
        load(runner, saved, **changes)


@pytest.mark.parametrize(
    "options", [{"keys": "fp16"}, {"values": "fp16"}, {"keys": "fp16", "values": "fp16"}]
)
def test_a_cache_of_other_types(tiny_llama, saved, options):
    with running(tiny_llama, exact(**options)) as other, pytest.raises(FileError, match="rows"):
        cache_transfer.open_saved(other, saved)


def test_a_cache_longer_than_the_context(tiny_llama, saved):
    sentence = r"at most 39 tokens.*found 40"
    with running(tiny_llama, exact(context=39)) as small, pytest.raises(FileError, match=sentence):
        cache_transfer.open_saved(small, saved)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_a_file_error(runner, saved, tmp_path_factory, data):
    """Cut anywhere, or a byte changed anywhere, or something behind the end."""
    whole = saved.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, 600))
    kind = data.draw(st.sampled_from(("cut", "flip", "longer")))
    if kind == "cut":
        broken = whole[:at]
    elif kind == "flip":
        bit = data.draw(st.integers(0, 7))
        broken = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    else:
        broken = whole + b"x"
    path = tmp_path_factory.getbasetemp() / "broken.kv"
    path.write_bytes(broken)
    try:
        found = load(runner, path)
    except FileError as error:
        assert str(path) in str(error)
    else:  # what is not rows has no checksum, but whatever it says now is sound
        assert kind == "flip"
        assert all(0 <= t < VOCABULARY for t in found.contents.tokens)
        assert all(len(rows.data) == len(found.contents.tokens) for rows in found.rows.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 1"),
        ({"weights": None}, "weights: expected 'as-stored a32', found null"),
        ({"tokens": [1, 2, 300]}, "tokens: expected numbers below 300"),
        ({"tokens": [1, True]}, "tokens"),
        ({"tokens": {}}, "tokens"),
        ({"tokens": [1] * 41}, "rows"),
        ({"gaps": [[0]]}, "gaps"),
        ({"gaps": [[5, [1]], [2, [1]]]}, "gaps: expected ascending"),
        ({"gaps": [[40, [1]]]}, "gaps: expected inside"),
        ({"precision": "half"}, "precision"),
        ({"rows": []}, "rows: expected 4 tensors"),
        ({"rows": [["a"] * 5] * 4}, "rows: expected"),
        ({"rows": [[[]]] * 4}, "rows: expected 'k_cache.0', 'f32', 0, 40, 128, found a list of 1"),
    ],
)
def test_a_header_that_lies(runner, saved, tmp_path, change, words):
    whole = saved.read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    header = json.dumps(json.loads(whole[16 : 16 + length]) | change).encode()
    path = tmp_path / "x"
    path.write_bytes(whole[:8] + len(header).to_bytes(8, "little") + header + whole[16 + length :])
    with pytest.raises(FileError, match=words):
        load(runner, path)


def test_a_pipe_in_place_of_a_cache_is_not_waited_for(runner, tmp_path):
    os.mkfifo(tmp_path / "x")
    with pytest.raises(FileError, match="not a regular file"):
        load(runner, tmp_path / "x")


@pytest.mark.parametrize("header", [b"[" * 100_000, b"{}", b"[]", b"\xff", b"1" * 5000])
def test_a_header_of_nonsense(runner, tmp_path, header):
    path = tmp_path / "x"
    path.write_bytes(b"LLMLKV01" + len(header).to_bytes(8, "little") + header)
    with pytest.raises(FileError, match=str(path)):
        load(runner, path)


def test_nothing_to_save_and_nowhere_to_save_it(tiny_llama, runner, tmp_path):
    with running(tiny_llama) as empty, pytest.raises(RequestError, match="empty"):
        cache_transfer.save(empty, tmp_path / "x")
    with pytest.raises(FileError, match="x: cannot be written: there is no directory"):
        cache_transfer.save(runner, tmp_path / "missing" / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_engine_saves_and_opens_and_only_logs_what_it_cannot(tiny_llama, tmp_path):
    client = Client()
    client.load(tiny_llama)
    client.ask()
    path = tmp_path / "chat.kv"
    client.send(SaveCache(str(path)))
    _said(client, "the cache was saved")
    held = client.until(CacheStatus).length
    client.load(tiny_llama)
    assert client.until(CacheStatus).length == 0
    client.send(OpenCache(str(path)))
    _said(client, f"{held} tokens came back")
    assert client.until(CacheStatus).length == held > 0
    assert client.ask()[0].stats.reused_tokens > 0
    path.write_bytes(path.read_bytes()[:-9])
    client.send(OpenCache(str(path)))
    assert _said(client, "truncated").level == "warning"
    assert client.ask()[0].stop_reason == "length"
    assert client.engine.close(PATIENCE)


def _said(client, words):
    while words not in (line := client.until(Logged)).text:
        pass
    return line
