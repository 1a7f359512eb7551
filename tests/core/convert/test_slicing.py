"""Slices: the reference implementation's logits with the same weights cut; what cannot be cut."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from llm_lite.cli import main
from llm_lite.core.convert import synthetic
from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.convert.slicing import find_slice, slice_model
from llm_lite.core.errors import FileError, LlmLiteError, RequestError, UnsupportedError
from llm_lite.core.formats.safetensors_reader import open_folder
from llm_lite.core.formats.variant_reader import open_variant
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.gemma3n.architecture import GEMMA_3N
from llm_lite.core.models.gemma3n.config import LAUREL, PER_LAYER_TABLE
from llm_lite.core.models.gemma3n.cut import SLICES, Gemma3nCutter
from llm_lite.core.models.model import Slice
from llm_lite.core.quant.tensor import TensorData
from tests.make_huggingface import (
    SLICE_SKIP,
    SLICE_SOURCE,
    SLICE_WIDTHS,
    write_tiny_gemma3n,
    write_tiny_llama,
)
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running

LOGITS = FIXTURES / "huggingface_logits.npz"
CUT = Slice(SLICE_SKIP, SLICE_WIDTHS)


def shapes_of(metadata, path):
    sizes = {"token_embd.weight": (262_144, 1), PER_LAYER_TABLE: (262_144, 1), LAUREL: (64, 1)}
    return GEMMA_3N.shapes_of(metadata, path, sizes=sizes, optional=True)


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
    # Sparse activations: a value that is nearly at its limit jumps with a last bit before it.
    assert np.abs(logits - expected).max() < 1e-2
    assert np.quantile(np.abs(logits - expected), 0.99) < 1e-3
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


# Blocks of 32 fill every row, and cuts fall on their edges.
EVEN = {**SLICE_SOURCE, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
EVEN |= {"hidden_size_per_layer_input": 32, "laurel_rank": 32}
EVEN_CUT = Slice(SLICE_SKIP, (64, 32, 96, 64, 32, 96, 64))


@pytest.fixture(scope="module")
def even(tmp_path_factory):
    return write_tiny_gemma3n(tmp_path_factory.mktemp("even") / "source", **EVEN)


def make_variant(source, target, mode):
    model = loader.open_model(str(source), lambda *_: None, print)
    quantize(model, target, mode)
    model.close()
    return target


@pytest.mark.parametrize("mode", ["int4", "int8", "fp16"])
def test_a_slice_of_a_variant_is_the_variant_of_a_slice(mode, even, tmp_path, monkeypatch):
    """Byte for byte: nothing is quantized again. Both may raise matrices."""
    monkeypatch.setattr("llm_lite.core.quant.modes.SPARE_BITS", 9)
    slice_model(make_variant(even, tmp_path / "whole", mode), tmp_path / "cut", EVEN_CUT)
    slice_model(even, tmp_path / "float", EVEN_CUT)
    make_variant(tmp_path / "float", tmp_path / "expected", mode)
    found, expected = open_variant(tmp_path / "cut"), open_variant(tmp_path / "expected")
    assert set(found.tensors) == set(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype, name
        assert found.tensors[name].shape == tensor.shape, name
        assert np.array_equal(found.tensors[name].data, tensor.data), name
    with running(tmp_path / "cut", exact("cpu")) as runner:
        assert (runner.model_info.layers, runner.model_info.feed_forward) == (7, 96)
        assert np.isfinite(runner.session.prefill(list(range(20)))).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["float", "int4"])
def test_a_view_is_the_slice_without_its_disk(mode, backend, even, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    whole = even if mode == "float" else make_variant(even, tmp_path / "whole", mode)
    slice_model(whole, tmp_path / "cut", EVEN_CUT)
    slice_model(whole, tmp_path / "view", EVEN_CUT, view=True)
    assert sum(path.stat().st_size for path in (tmp_path / "view").iterdir()) < 1000
    tokens, logits = list(range(20, 60)), []
    for name in ("cut", "view"):
        with running(tmp_path / name, exact(backend), device=device, every_output=True) as runner:
            logits.append(runner.session.logits(tokens))
            tensors = dict(runner.model_file.file.tensors)
    assert np.array_equal(*logits)
    copied = {name for name, tensor in tensors.items() if owned(tensor.data)}
    narrow = {i for i, width in enumerate(EVEN_CUT.feed_forward) if width < 96}
    downs = {f"blk.{i}.ffn_down.weight" for i in narrow}
    assert copied == downs | {"per_layer_model_proj.weight"}


def owned(data):
    """Whether the memory is an array's own, not a file's."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data.base is None


def test_a_view_of_the_first_layers(even, tmp_path):
    """The table has columns behind those that are used."""
    found = []
    for name in ("cut", "view"):
        slice_model(even, tmp_path / name, Slice((8, 9), 96), view=name == "view")
        with running(tmp_path / name, exact("cpu")) as runner:
            found.append(runner.session.prefill([5, 6, 7]))
    assert np.array_equal(*found)


def test_a_view_whose_source_has_changed(even, tmp_path):
    for name in ("a", "c"):
        (tmp_path / name).mkdir()
    source, view = make_variant(even, tmp_path / "a" / "whole", "int8"), tmp_path / "view"
    slice_model(source, view, EVEN_CUT, view=True)
    with pytest.raises(RequestError, match=r"is a view of .*whole; slice that instead"):
        slice_model(view, tmp_path / "b", EVEN_CUT)
    source.rename(tmp_path / "a" / "moved")
    with pytest.raises(FileError, match=r"its source .*whole is not there"):
        open_source(view)
    make_variant(even, source, "int4")
    with pytest.raises(FileError, match="is another model than the slice was made of"):
        open_source(view)
    text = (view / "slice.json").read_text()
    (tmp_path / "c" / "slice.json").write_text(text.replace("a/whole", "view"))
    with pytest.raises(FileError, match="is a view itself"):
        open_source(tmp_path / "c")
    (view / "slice.json").write_text("{}")
    with pytest.raises(FileError, match="layout version: expected 1, found null"):
        open_source(view)


@pytest.mark.parametrize("text", ["a\0b", "x" * 5000])
def test_a_view_whose_source_is_no_path(text, tmp_path):
    value = {"layout_version": 1, "source": text, "identity": "", "skip": [], "feed_forward": 1}
    (tmp_path / "slice.json").write_text(json.dumps(value))
    with pytest.raises(FileError, match=r"slice.json: source is .*, which cannot be a path"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (Slice((), 80), "blk.0.ffn_down.weight: a cut at 80 does not fall on the edge of a block"),
        (Slice((), 40), "a cut at 40 does not fall on the edge of a block of 16 int4 values"),
    ],
)
@pytest.mark.parametrize("view", [False, True])
def test_a_cut_within_a_block(cut, message, view, even, tmp_path):
    whole = make_variant(even, tmp_path / "whole", "int4")
    with pytest.raises(RequestError, match=message):
        slice_model(whole, tmp_path / "cut", cut, view=view)
    assert {path.name for path in tmp_path.iterdir()} == {"whole"}


REFUSED = {
    "owner of sliding": (Slice((4,), 77), "layer 4 cannot be left out: later layers share its"),
    "owner of full": (Slice((5,), 77), "layer 5 cannot be left out: later layers share its"),
    "no such layer": (Slice((10,), 77), "layer 10 cannot be left out: there are 10"),
    "too wide": (Slice((), 78), "layer 0: expected a feed-forward of 1 to 77, found 78"),
    "no width": (Slice((), 0), "layer 0: expected a feed-forward of 1 to 77, found 0"),
    "widths": (Slice((1,), (64,) * 10), "has 10 feed-forward widths for 9 layers"),
    "E2B": (SLICES["E2B"], "layer 20 cannot be left out: there are 10"),
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


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("kind", ["file", "pipe", "link", "none", "long"])
def test_places_that_are_taken(source, tmp_path, kind, view):
    folder, place = tmp_path / "folder", tmp_path / "folder" / "cut"
    folder.mkdir()
    if kind == "file":
        place.write_text("mine")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("nowhere")
    else:
        place = folder / ("none/cut" if kind == "none" else "x" * 256)
    before = sorted(folder.iterdir())
    said = "there is no directory|File name too long|cut: exists already; choose another name"
    with pytest.raises(FileError, match=said):
        slice_model(source, place, CUT, view=view)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("view", [False, True])
def test_a_full_disk_leaves_no_part_of_a_slice(source, tmp_path, monkeypatch, view):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llm_lite.core.files.writing.os.write", full)
    with pytest.raises(FileError, match="cut: cannot be written: No space left on device"):
        slice_model(source, tmp_path / "cut", CUT, view=view)
    assert list(tmp_path.iterdir()) == []


def effective_parameters(cut):
    """In billions, of E4B cut so: all but the embeddings."""
    metadata, _ = synthetic._gemma({})
    path = Path("x")
    shapes = shapes_of(metadata, path)
    weights = [TensorData(n, "f32", s, np.empty(0, np.uint8)) for n, s in shapes]
    by_name = {tensor.name: tensor for tensor in weights}
    config = GEMMA_3N.config_of(metadata, by_name, path)
    cutter = Gemma3nCutter(config, cut)
    fields = cutter.metadata(metadata)
    left = shapes_of(fields, path)
    counted = (math.prod(shape) for name, shape in left if "token_embd" not in name)
    return sum(counted) / 1e9


@pytest.mark.parametrize("name", SLICES)
def test_known_slices_are_those_of_the_table(name):
    """The name is the size; the table has E2B as 1.91 and one row of 3.79 as 3.74."""
    size = {"E2B": 1.91, "E3.79B-block": 3.74}.get(name) or float(name[1:].partition("B")[0])
    assert effective_parameters(SLICES[name]) == pytest.approx(size, abs=0.02)
    assert find_slice(name.lower()) is SLICES[name]


def test_e2b_is_the_published_one():
    assert set(SLICES["E2B"].feed_forward) == {8192}
    assert (len(SLICES["E2B"].feed_forward), SLICES["E2B"].skip) == (30, (20, 21, 22, 23, 24))
    assert effective_parameters(Slice((), 16384)) == pytest.approx(3.98, abs=0.02)


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
    assert main.main([*words[:2], str(tmp_path / "view"), *words[3:], "--view"]) == 0
    with running(tmp_path / "view", exact("cpu")) as runner:
        assert runner.model_info.feed_forward == 32
    capsys.readouterr()
    assert main.main(words) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "cut")
    with running(tmp_path / "cut", exact("cpu")) as runner:
        assert runner.model_info.feed_forward == 32
    assert main.main(words) == 1
    assert "exists already" in capsys.readouterr().err
