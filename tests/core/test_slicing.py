"""Slices: the reference implementation's logits with the same weights cut; what cannot be cut."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.errors import FileError, LlmLiteError, RequestError, UnsupportedError
from core.formats.safetensors import open_folder
from core.slicing import KNOWN, Slice, find_slice, slice_model
from desktop import cli
from tests.make_huggingface import (
    SLICE_SKIP,
    SLICE_SOURCE,
    SLICE_WIDTHS,
    write_tiny_gemma3n,
    write_tiny_llama,
)
from tests.runners import BACKENDS, exact, running

LOGITS = Path(__file__).parents[1] / "fixtures" / "huggingface_logits.npz"
CUT = Slice(SLICE_SKIP, SLICE_WIDTHS)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_tiny_gemma3n(tmp_path_factory.mktemp("whole") / "source", **SLICE_SOURCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_logits_are_those_of_the_cut_weights(backend, source, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    slice_model(source, tmp_path / "cut", CUT)
    with np.load(LOGITS) as arrays:
        tokens, expected = arrays["slice.tokens"].tolist(), arrays["slice.logits"]
    with running(tmp_path / "cut", exact(backend), device=device, every_output=True) as runner:
        logits = runner.session.logits(tokens)
        assert runner.model_info.layers == 7
    assert np.abs(logits - expected).max() < 2e-3
    with running(source, exact("cpu"), every_output=True) as runner:
        assert np.abs(runner.session.logits(tokens) - expected).max() > 0.1


def test_nothing_left_out_is_the_same_model(source, tmp_path):
    slice_model(source, tmp_path / "same", Slice((), 77))
    before, after = open_folder(source), open_folder(tmp_path / "same")
    assert set(before.tensors) == set(after.tensors)
    for name, tensor in before.tensors.items():
        assert np.array_equal(tensor.data, after.tensors[name].data), name


def test_types_stay_and_files_come_along(tmp_path):
    source = write_tiny_gemma3n(tmp_path / "source", dtype="BF16", shards=3, **SLICE_SOURCE)
    slice_model(source, tmp_path / "cut", CUT)
    assert {t.dtype for t in open_folder(tmp_path / "cut").tensors.values()} == {"bf16"}
    names = {path.name for path in (tmp_path / "cut").iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    config = json.loads((tmp_path / "cut" / "config.json").read_text())
    assert config["intermediate_size"] == list(SLICE_WIDTHS)
    assert config["num_kv_shared_layers"] == 2
    assert config["activation_sparsity_pattern"][:3] == [0.9, 0.7, 0.0]


REFUSED = {
    "owner of sliding": (Slice((4,), 77), "layer 4 cannot be left out: later layers share its"),
    "owner of full": (Slice((5,), 77), "layer 5 cannot be left out: later layers share its"),
    "no such layer": (Slice((10,), 77), "layer 10 cannot be left out: there are 10"),
    "too wide": (Slice((), 78), "layer 0: expected a feed-forward of 1 to 77, found 78"),
    "no width": (Slice((), 0), "layer 0: expected a feed-forward of 1 to 77, found 0"),
    "widths": (Slice((1,), (64,) * 10), "has 10 feed-forward widths for 9 layers"),
    "E2B": (KNOWN["E2B"], "layer 20 cannot be left out: there are 10"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_cuts_that_do_not_fit(case, source, tmp_path):
    cut, message = REFUSED[case]
    with pytest.raises(RequestError, match=message):
        slice_model(source, tmp_path / "cut", cut)
    assert list(tmp_path.iterdir()) == []


def test_other_models_and_places(source, tmp_path):
    with pytest.raises(UnsupportedError, match="is no Gemma 3n, the only kind"):
        slice_model(write_tiny_llama(tmp_path / "llama"), tmp_path / "cut", CUT)
    (tmp_path / "there").mkdir()
    with pytest.raises(FileError, match="there: exists already"):
        slice_model(source, tmp_path / "there", CUT)


def test_known_slices_are_those_of_the_table():
    assert set(KNOWN["E2B"].feed_forward) == {8192}
    assert (len(KNOWN["E2B"].feed_forward), KNOWN["E2B"].skip) == (30, (20, 21, 22, 23, 24))
    wide = [i for i, width in enumerate(KNOWN["E1.96B"].feed_forward) if width == 16384]
    assert wide == [4]
    assert find_slice("e2b") is KNOWN["E2B"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"skip": 3, "feed_forward": 8}', "skip is 3, expected a list of layers"),
        ('{"skip": [true], "feed_forward": 8}', "skip is a list of 1, expected a list of layers"),
        ('{"skip": []}', "feed_forward is null, expected a width or a list of widths"),
        ('{"feed_forward": ["8"]}', "feed_forward is a list of 1, expected a width"),
    ],
)
def test_bad_slice_files(text, message, tmp_path):
    (tmp_path / "cut.json").write_text(text)
    with pytest.raises(FileError, match=message):
        find_slice(str(tmp_path / "cut.json"))


def test_unknown_names():
    with pytest.raises(LlmLiteError, match=r"unknown slice 'E3B': expected E2B, E1\.96B"):
        find_slice("E3B")


def test_the_command(source, tmp_path, capsys):
    (tmp_path / "cut.json").write_text(json.dumps({"skip": [1, 6, 7], "feed_forward": 32}))
    words = ["slice", str(source), str(tmp_path / "cut"), "--config", str(tmp_path / "cut.json")]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "cut")
    with running(tmp_path / "cut", exact("cpu")) as runner:
        assert runner.model_info.feed_forward == 32
    assert cli.main(words) == 1
    assert "exists already" in capsys.readouterr().err
