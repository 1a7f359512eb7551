"""Calibration with a text: what it needs, what it refuses, and where its memory lies."""

import os

import numpy as np
import pytest

from llm_lite.core.convert import calibration_run
from llm_lite.core.convert.calibration import collect
from llm_lite.core.errors import CancelledError, FileError, RequestError
from llm_lite.core.loading import loader
from llm_lite.core.quant.registry import FORMATS
from tests.make_gguf import Tensor, TinyLlama, build_gguf, llama_metadata, llama_tensors
from tests.make_huggingface import write_tiny_llama
from tests.runners import exact, running

TEXT = "Whoever wants to see the sea walks down the road to the harbour and waits there. " * 6


@pytest.fixture
def opened(tiny_llama):
    model = loader.open_model(str(tiny_llama), lambda *_: None, print)
    yield model
    model.close()


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def test_moments_are_those_of_the_definition(opened, text, tmp_path, tiny_llama):
    told = []
    moments = calibration_run.calibrate(
        opened, text, tmp_path, lambda stage, part: told.append(part)
    )
    tokens = opened.tokenizer.encode(TEXT, parse_special=False)
    chunks = [tokens[i : i + 128] for i in range(0, len(tokens) - 127, 128)]
    assert moments.tokens == 128 * len(chunks) > 128
    with running(tiny_llama, exact(context=128), every_output=True) as runner:
        expected = collect(runner.executor, chunks)
    for name, moment in moments.of_matrix.items():
        assert np.allclose(moment, expected.of_matrix[name], rtol=2e-3, atol=1e-3), name
    assert told[-1] == 1


def test_moments_lie_in_files_without_a_name(opened, text, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    moments = calibration_run.calibrate(opened, text, folder)
    assert list(folder.iterdir()) == []
    base = next(iter(moments.of_matrix.values()))
    while isinstance(base, np.ndarray):
        base = base.base
    assert "mmap" in type(getattr(base, "obj", base)).__name__


def test_weights_of_huggingface_directories(text, tmp_path):
    folder = write_tiny_llama(tmp_path / "hf", dtype="BF16")
    model = loader.open_model(str(folder), lambda *_: None, print)
    try:
        moments = calibration_run.calibrate(model, text, tmp_path)
    finally:
        model.close()
    assert moments.of_matrix["output.weight"].shape == (48, 48)
    assert "token_embd.weight" not in moments.of_matrix  # untied: read as rows only


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"too short", RequestError, "the calibration text has 7 tokens, expected at least 64"),
        (b"", RequestError, "the calibration text has 0 tokens"),
        (b"caf\xe9", FileError, "text.txt: is not valid UTF-8 at byte 3"),
        (None, FileError, "text.txt: no such file"),
    ],
)
def test_bad_texts(opened, text, tmp_path, content, error, message):
    text.unlink() if content is None else text.write_bytes(content)
    with pytest.raises(error, match=message):
        calibration_run.calibrate(opened, text, tmp_path)


def test_a_full_disk_is_told(opened, text, tmp_path, monkeypatch):
    def full(file, offset, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match="cannot be written: No space left on device"):
        calibration_run.calibrate(opened, text, tmp_path)


def test_without_fallocate_the_room_is_filled(opened, text, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    found = calibration_run.calibrate(opened, text, tmp_path)
    assert all(np.isfinite(moment).all() for moment in found.of_matrix.values())


def damaged(path, name, value):
    size = TinyLlama(dtype="f32")
    tensors = llama_tensors(size)
    values = FORMATS["f32"].dequantize(
        np.frombuffer(tensors[name].data, np.uint8), tensors[name].shape
    )
    values[..., 3] = value
    changed = tensors | {name: Tensor("f32", tensors[name].shape, values.tobytes())}
    path.write_bytes(build_gguf(llama_metadata(size), changed))
    return loader.open_model(str(path), lambda *_: None, print, check_weights=False)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(text, tmp_path, value):
    model = damaged(tmp_path / "bad.gguf", "blk.1.ffn_up.weight", value)
    expected = "tensor blk.1.ffn_up.weight: expected finite weights, found NaN or infinity"
    with pytest.raises(FileError, match=expected):
        calibration_run.calibrate(model, text, tmp_path)


def test_values_that_overflow_are_told(text, tmp_path):
    model = damaged(tmp_path / "large.gguf", "blk.1.ffn_up.weight", 3e38)
    with pytest.raises(RequestError, match="overflow float32 on the calibration text"):
        calibration_run.calibrate(model, text, tmp_path)


def test_without_a_file_the_model_writes_the_text(opened, tmp_path):
    told = []
    moments = calibration_run.calibrate(
        opened, None, tmp_path, lambda stage, part: told.append((stage, part))
    )
    assert moments.tokens == calibration_run.CHUNKS * opened.model.shape.trained_context
    assert ("writing a text to calibrate with", 1.0) in told
    assert told[-1] == ("calibrating", 1.0)


def test_the_text_that_a_model_writes(opened):
    chunks = calibration_run.write_chunks(opened)
    assert chunks == calibration_run.write_chunks(opened)  # the same each time
    size = opened.model.shape.trained_context
    assert [len(chunk) for chunk in chunks] == [size] * calibration_run.CHUNKS
    assert len({tuple(chunk) for chunk in chunks}) == calibration_run.CHUNKS
    start = len(opened.tokenizer.around[0])
    firsts = {chunk[start] for chunk in chunks}
    assert len(firsts) > calibration_run.CHUNKS // 2
    assert not any(opened.tokenizer.is_special(first) for first in firsts)


def test_cancelling_while_the_model_writes(opened, tmp_path):
    def stop(stage, part):
        raise CancelledError("stopped")

    with pytest.raises(CancelledError):
        calibration_run.calibrate(opened, None, tmp_path, stop)
