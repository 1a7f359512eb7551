"""A file of a cache holds the recurrent states that a conversation goes on from."""

import json

import numpy as np
import pytest

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.kv_cache import on_disk
from tests.core.generation.test_recurrent_session import CLOSE, words
from tests.runners import BACKENDS, exact, running

PROMPT, ANSWER, MORE = 300, 40, 20


@pytest.fixture(scope="module")
def text():
    return words(np.random.default_rng(20), PROMPT + ANSWER + MORE)


@pytest.fixture(scope="module")
def anew(recurrent_folder, text):
    """Logits of a session that reads the whole text."""
    with running(recurrent_folder, exact("numpy")) as runner:
        return runner.session.prefill(text)


@pytest.fixture(scope="module")
def saved(recurrent_folder, text, tmp_path_factory):
    """A prompt and its answer."""
    path = tmp_path_factory.mktemp("caches") / "chat.kv"
    with running(recurrent_folder, exact("cpu")) as runner:
        runner.session.prefill(text[:PROMPT])
        for token in text[PROMPT : PROMPT + ANSWER]:
            runner.session.decode(token)
        size = runner.session.cache.copy_bytes
        assert cache_transfer.save(runner, path) == path.stat().st_size
        assert size < path.stat().st_size < size + (8 << 10), "the header is small"
    return path


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_what_is_new_is_read(recurrent_folder, text, anew, saved, device, backend):
    with running(recurrent_folder, exact(backend), device=device) as runner:
        session = runner.session
        assert cache_transfer.open_saved(runner, saved) == PROMPT + ANSWER
        assert session.tokens() == tuple(text[: PROMPT + ANSWER])
        assert session.prepare(text).reused == PROMPT + ANSWER
        assert np.abs(session.prefill(text) - anew).max() <= CLOSE


def test_another_answer_goes_on_behind_the_prompt(recurrent_folder, text, saved):
    other = [*text[:PROMPT], *words(np.random.default_rng(21), 30)]
    with (
        running(recurrent_folder, exact("cpu")) as runner,
        running(recurrent_folder, exact("numpy")) as alone,
    ):
        cache_transfer.open_saved(runner, saved)
        assert runner.session.prepare(other).reused == PROMPT
        found, expected = runner.session.prefill(other), alone.session.prefill(other)
        assert np.abs(found - expected).max() <= CLOSE


def test_what_other_gains_made_is_left_out_up_to_the_last_state(recurrent_folder, text, tmp_path):
    path = tmp_path / "chat.kv"
    with running(recurrent_folder, exact("cpu")) as runner:
        session = runner.session
        ones = session.gains
        session.prefill(text[:60])
        session.set_gains(tuple((0.5,) * len(row) for row in ones))
        session.prefill(text[:90])
        session.set_gains(ones)
        cache_transfer.save(runner, path)
        prefix = on_disk.load(path, cache_transfer.identity(runner), session.cache, 300)
        assert (len(prefix.contents.tokens), list(prefix.states)) == (60, [60])
        session.set_gains(tuple((0.5,) * len(row) for row in ones))
        session.prefill(text[:100])
        session.set_gains(ones)  # a copy has the last two states, both made with other gains
        with pytest.raises(RequestError, match="no recurrent state is held of what was made"):
            cache_transfer.save(runner, path)


def changed_header(whole, change):
    length = int.from_bytes(whole[8:16], "little")
    header = json.dumps(json.loads(whole[16 : 16 + length]) | change).encode()
    return whole[:8] + len(header).to_bytes(8, "little") + header + whole[16 + length :]


@pytest.fixture(scope="module")
def runner(recurrent_folder):
    with running(recurrent_folder, exact("cpu")) as runner:
        yield runner


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"states": 0}, "states: expected 1 to 340, found 0"),
        ({"states": True}, "states: expected 1 to 340"),
        ({"states": None}, "states: expected 1 to 340, found null"),
        ({"states": 341}, "states: expected 1 to 340, found 341"),
        ({"states": 1}, "states: expected numbers of tokens, ascending up to 340, found 300"),
        ({"states": 3}, "states: expected numbers of tokens, ascending"),
        ({"states": 300}, "states: expected numbers of tokens, ascending"),
        ({"state_rows": []}, r"state_rows: expected \[\[.*, found a list of 0"),
        ({"state_rows": {}}, "state_rows: expected"),
    ],
)
def test_a_header_that_lies(runner, saved, tmp_path, change, sentence):
    path = tmp_path / "x"
    path.write_bytes(changed_header(saved.read_bytes(), change))
    with pytest.raises(FileError, match=sentence):
        cache_transfer.open_saved(runner, path)
    assert runner.session.context_used == 0


def test_damage_of_a_state_is_told(runner, saved, tmp_path):
    whole, path = saved.read_bytes(), tmp_path / "x"
    states = 2 * runner.session.cache.states.nbytes
    for at in (-5, -states // 2, 3 - states):  # from the end: the last and the first state
        broken = bytearray(whole)
        broken[at] ^= 1
        path.write_bytes(broken)
        with pytest.raises(FileError, match="is damaged: its checksum is another"):
            cache_transfer.open_saved(runner, path)
    lengths = len(whole) - 4 - states - 16
    assert np.frombuffer(whole[lengths : lengths + 16], "<u8").tolist() == [PROMPT, PROMPT + ANSWER]
    broken = bytearray(whole)
    broken[lengths] ^= 1  # a state of another place
    path.write_bytes(broken)
    with pytest.raises(FileError, match="checksum"):
        cache_transfer.open_saved(runner, path)
    broken[lengths + 8] ^= 1
    path.write_bytes(broken)
    with pytest.raises(FileError, match="ascending up to 340, found 301, 341"):
        cache_transfer.open_saved(runner, path)
    for size in (len(whole) - 1, len(whole) - states // 2, lengths + 3):
        path.write_bytes(whole[:size])
        with pytest.raises(FileError, match="is truncated: "):
            cache_transfer.open_saved(runner, path)
    path.write_bytes(whole + b"x")
    with pytest.raises(FileError, match=rf"expected {len(whole)} bytes, found {len(whole) + 1}"):
        cache_transfer.open_saved(runner, path)
    assert runner.session.context_used == 0
