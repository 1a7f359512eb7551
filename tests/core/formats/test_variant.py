"""Variants as they are read: mapped, checked, and every bad one refused in a sentence."""

import json
import math
import mmap
import shutil
import struct
from array import array

import numpy as np
import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.formats import variant_reader as reader
from llm_lite.core.formats.variant_reader import from_json, open_variant, to_json, was_variant
from llm_lite.core.formats.variant_writer import Slot, VariantWriter
from llm_lite.core.quant.registry import FORMATS
from tests.weight_blocks import BLOCK_FORMATS, random_blocks

VALUES = np.random.default_rng(3).standard_normal((20, 64)).astype(np.float32)
TENSORS = {"a": "f32", "b": "int4", "c": "int8", "d": "f16"}


def write(folder, **manifest):
    data = {name: FORMATS[dtype].quantize(VALUES) for name, dtype in TENSORS.items()}
    slots = [Slot(n, TENSORS[n], VALUES.shape, len(data[n])) for n in TENSORS]
    slots.append(Slot("v", "f32", (5,), 20))
    data["v"] = FORMATS["f32"].quantize(VALUES[0, :5])
    documents = {"metadata.json": to_json({"general.name": "x", "deep": [[1], [2.5]]})}
    with VariantWriter(folder, slots, documents, "int4") as writer:
        for slot in slots:
            writer.add(data[slot.name])
        writer.finish({"tokenizer": "t", "source": {}, "report": {}, **manifest})
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "v")


def change_manifest(folder, **changes):
    file = folder / "variant.json"
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def change_header(folder, change):
    """The header of the weights, changed in place: it may not grow."""
    file = folder / "model.safetensors"
    raw = file.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    described = json.loads(header["__metadata__"]["tensors"])
    change(header, described)
    header["__metadata__"]["tensors"] = json.dumps(described)
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= size
    file.write_bytes(raw[:8] + text.ljust(size) + raw[8 + size :])


def test_tensors_come_back_as_they_were_written(folder):
    opened = open_variant(folder)
    assert opened.mode == "int4"
    assert opened.metadata == {"general.name": "x", "deep": [[1], array("d", [2.5])]}
    for name, dtype in TENSORS.items():
        tensor = opened.tensors[name]
        assert (tensor.dtype, tensor.shape) == (dtype, (20, 64))
        assert np.array_equal(tensor.data, FORMATS[dtype].quantize(VALUES))
    assert np.array_equal(opened.tensors["v"].dequantize(), VALUES[0, :5])
    assert opened.nbytes == sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.parametrize("dtype", BLOCK_FORMATS)
def test_slices_of_files_keep_blocks_of_every_type(tmp_path, dtype):
    shape = (5, 3 * FORMATS[dtype].block_size)
    data = random_blocks(dtype, shape)
    slots = [Slot("t", dtype, shape, len(data))]
    with VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "as-stored") as writer:
        writer.add(data)
        writer.finish({"tokenizer": "t", "source": {}, "report": {}})
    tensor = open_variant(tmp_path / "v").tensors["t"]
    assert (tensor.dtype, tensor.shape) == (dtype, shape)
    assert np.array_equal(tensor.data, data)


def test_tensors_lie_in_the_mapped_file_at_lines_of_the_cache(folder):
    for tensor in open_variant(folder).tensors.values():
        base = tensor.data
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
        assert tensor.data.ctypes.data % 64 == 0
        assert not tensor.data.flags.writeable


def test_tensors_outlive_their_variant(folder):
    opened = open_variant(folder)
    tensor = opened.tensors["a"]
    opened.close()
    shutil.rmtree(folder)
    assert np.array_equal(tensor.dequantize(), VALUES)


def test_numbers_that_json_lacks_come_back():
    metadata = {"scale": [-math.inf, 1.5, 0.0], "top": math.inf, "words": ("a", "b"), "n": 3}
    found = from_json(json.loads(to_json(metadata)))
    scale = array("d", [-math.inf, 1.5, 0.0])
    assert found == {"scale": scale, "top": math.inf, "words": ["a", "b"], "n": 3}
    assert to_json(found) == to_json(metadata)


@pytest.mark.parametrize("name", ["model.safetensors", "metadata.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileError, match=f"{name}: the file is missing from the variant"):
        open_variant(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "metadata.json"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_file_of_a_wrong_size_is_named(folder, name, by):
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw + b" " if by > 0 else raw[:-1])
    expected = rf"{name}: expected {len(raw)} bytes, .*, found {len(raw) + by}"
    with pytest.raises(FileError, match=expected):
        open_variant(folder)


def test_a_lost_manifest_is_named(folder):
    (folder / "variant.json").unlink()
    assert was_variant(folder)
    with pytest.raises(FileError, match=r"variant.json: no such file"):
        open_variant(folder)


@pytest.mark.parametrize(
    ("version", "advice"),
    [(0, "quantize the source again"), (2, "written by a newer llm-lite"), (-7, "again")],
)
def test_another_layout_version_is_refused(folder, version, advice):
    change_manifest(folder, layout_version=version)
    with pytest.raises(FileError, match=f"layout version: expected 1, found {version}; .*{advice}"):
        open_variant(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout_version": "1"}, "layout_version is '1', expected an integer"),
        ({"layout_version": True}, "layout_version is true, expected an integer"),
        ({"layout_version": None}, "layout_version is null, expected an integer"),
        ({"files": []}, "files is a list of 0, expected an object"),
        ({"files": {}}, "files does not name model.safetensors"),
        ({"tokenizer": 3}, "tokenizer is 3, expected a string"),
        ({"mode": None}, "mode is null, expected a string"),
        ({"source": 1}, "source is 1, expected an object"),
        ({"report": "x"}, "report is 'x', expected an object"),
    ],
)
def test_bad_manifests(folder, changes, message):
    change_manifest(folder, **changes)
    with pytest.raises(FileError) as caught:
        open_variant(folder)
    assert str(caught.value) == f"{folder / 'variant.json'}: {message}"


@pytest.mark.parametrize("name", ["../secret", "a/b", "a\\b", "c:x", "..", ".", "", "\0", "\ud800"])
def test_only_files_of_the_directory_are_named(folder, name):
    files = json.loads((folder / "variant.json").read_text())["files"]
    change_manifest(folder, files=files | {name: 3})
    refused = "the file is not valid Unicode: " if name == "\ud800" else "files: "
    with pytest.raises(FileError, match=rf"variant\.json: {refused}"):
        open_variant(folder)


def described_as(name, value):
    return lambda header, described: described.update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (described_as("a", ["q9", [20, 64]]), "tensor 'a' has format 'q9', expected one of f32"),
        (described_as("a", 3), "tensor 'a' has format null"),
        (described_as("b", ["int4", [20, 63]]), "tensor 'b' has shape"),
        (described_as("b", ["int4", [-20, 64]]), "tensor 'b' has shape"),
        (described_as("b", ["int4", [20, True]]), "tensor 'b' has shape"),
        (described_as("b", ["int4", []]), "tensor 'b' has shape"),
        (described_as("b", ["int4", [20, None]]), r"tensor 'b' has shape \(20, null\), which int4"),
        (described_as("b", ["int4", [40, 64]]), r"tensor 'b' of int4 \(40, 64\): expected"),
        (described_as("c", ["f32", [2, 64]]), r"tensor 'c' of f32 \(2, 64\): expected"),
        (lambda h, d: d.pop("c"), "tensor 'c' is not both in the data and in __metadata__"),
        (
            lambda h, d: h["__metadata__"].update(layout_version="2"),
            "layout version: expected 1, found '2'",
        ),
        (
            lambda h, d: h["__metadata__"].pop("layout_version"),
            "layout version: expected 1, found 'none'",
        ),
    ],
)
def test_bad_descriptions_of_tensors(folder, change, message):
    change_header(folder, change)
    with pytest.raises(FileError, match=f"model.safetensors: {message}"):
        open_variant(folder)


def test_tensors_that_do_not_lie_aligned_are_refused(folder):
    file = folder / "model.safetensors"
    raw = file.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    shifted = struct.pack("<Q", size + 1) + raw[8 : 8 + size] + b" " + raw[8 + size :]
    file.write_bytes(shifted)
    files = json.loads((folder / "variant.json").read_text())["files"]
    change_manifest(folder, files=files | {"model.safetensors": len(shifted)})
    with pytest.raises(FileError, match="does not begin at a multiple of 64 bytes"):
        open_variant(folder)


def test_identity_is_of_what_the_model_is_not_of_its_weights(folder):
    opened = open_variant(folder)
    identity = reader.identity_of(opened.metadata, opened.tensors)
    assert identity == reader.identity_of(dict(opened.metadata), dict(opened.tensors))
    assert identity != reader.identity_of({**opened.metadata, "x": 1}, opened.tensors)
    fewer = {name: t for name, t in opened.tensors.items() if name != "a"}
    assert identity != reader.identity_of(opened.metadata, fewer)
