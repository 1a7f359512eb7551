"""Maps as numbers: taken between two steps of an answer, written beside it."""

import threading

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.inspect import attention_export
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.attention_export import snapshot, write, write_later
from llm_lite.core.messages import (
    ExportMaps,
    Generate,
    GenerationFinished,
    MapsExported,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.children import PATIENCE
from tests.core.engine_client import GREEDY, HELLO
from tests.runners import exact, running

HEADS = ((0, 1), (1, 3), (0, 0))


@pytest.fixture
def source(tiny_llama):
    with running(tiny_llama, exact()) as runner:
        runner.session.prefill(list(range(40, 70)))
        yield runner.attention


def test_the_file_holds_the_maps(source, tmp_path):
    write(snapshot(source, HEADS), tmp_path / "new" / "maps.npz")
    with np.load(tmp_path / "new" / "maps.npz") as found:
        assert found["tokens"].tolist() == list(range(40, 70))
        assert found["positions"].tolist() == list(range(30))
        assert found["heads"].tolist() == [list(head) for head in HEADS]
        assert found["probs"].dtype == np.float32
        for number, (layer, head) in enumerate(HEADS):
            want = np.empty((1, 30, 30), np.float32)
            head_maps(source, layer, [head], want)
            np.testing.assert_array_equal(found["probs"][number], want[0])


def test_the_file_holds_capped_maps(source, tmp_path):
    plain = np.empty((1, 30, 30), np.float32)
    head_maps(source, 0, [1], plain)
    source.layers = tuple(replace(layer, softcap=0.02) for layer in source.layers)
    want = np.empty_like(plain)
    head_maps(source, 0, [1], want)
    write(snapshot(source, HEADS), tmp_path / "maps.npz")
    with np.load(tmp_path / "maps.npz") as found:
        np.testing.assert_array_equal(found["probs"][0], want[0])
    assert np.abs(want - plain).max() > 1e-3


def test_what_was_taken_stays_as_it_was(tiny_llama, tmp_path):
    with running(tiny_llama, exact()) as runner:
        runner.session.prefill(list(range(40, 70)))
        taken = snapshot(runner.attention, HEADS)
        write(taken, tmp_path / "before.npz")
        runner.session.prefill(list(range(50, 90)))
        write(taken, tmp_path / "after.npz")
    with np.load(tmp_path / "before.npz") as before, np.load(tmp_path / "after.npz") as after:
        np.testing.assert_array_equal(before["probs"], after["probs"])


def test_what_cannot_be_exported_is_a_sentence(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    taken, told = snapshot(source, HEADS), []
    with pytest.raises(LlmLiteError, match="file: cannot be made: there is a file where"):
        write(taken, tmp_path / "file" / "x.npz")
    with pytest.raises(LlmLiteError, match="already"):
        write(taken, tmp_path / "file")
    done = threading.Event()
    write_later(taken, tmp_path / "file", lambda words: (told.append(words), done.set()))
    assert done.wait(PATIENCE) and "already" in told[0]
    with pytest.raises(LlmLiteError, match="layer 9, head 0"):
        snapshot(source, ((9, 0),))
    monkeypatch.setattr(attention_export, "available_bytes", lambda: 1000)
    with pytest.raises(LlmLiteError, match="choose fewer heads"):
        snapshot(source, HEADS)


def test_while_an_answer_is_written(client, tiny_llama, tmp_path):
    with pytest.raises(RequestError, match="no model"):
        client.result(ExportMaps(str(tmp_path / "none.npz"), HEADS))
    assert not (tmp_path / "none.npz").exists()
    client.load(tiny_llama)
    client.send(Generate(HELLO, GREEDY))
    client.until(TokenDecoded)
    exported = client.result(ExportMaps(str(tmp_path / "maps.npz"), HEADS))
    assert exported == MapsExported(str(tmp_path / "maps.npz"))
    finished = client.until(GenerationFinished) if not client.of(GenerationFinished) else None
    assert finished is None or finished.stop_reason == "length"
    with np.load(tmp_path / "maps.npz") as found:
        n = len(found["tokens"])
        np.testing.assert_allclose(found["probs"].sum(axis=2), 1, atol=1e-5)
        assert found["probs"].shape == (3, n, n)
