"""Safetensors: what is written is read, where it lies; whatever is wrong is one sentence."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.mapping import mapped
from llm_lite.core.formats.safetensors_reader import open_folder, open_safetensors, open_sharded
from tests.make_safetensors import build_raw, build_safetensors, entry, write_shards

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5


def write(tmp_path, raw):
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    return path


def test_reads_names_types_shapes_and_values(tmp_path):
    tensors = {
        "a": entry(VALUES),
        "b": entry(VALUES.astype(np.float16)),
        "c": entry(VALUES, "BF16"),
        "bytes": entry(np.arange(5, dtype=np.uint8)),
        "signed": entry(np.arange(-2, 2, dtype=np.int8)),
        "empty": entry(np.zeros((0, 4), np.float32)),
        "scalar": entry(np.array(7, np.float32)),
    }
    path = write(tmp_path, build_safetensors(tensors, {"format": "pt"}))
    with open_safetensors(path) as file:
        assert dict(file.metadata) == {"format": "pt"}
        assert file.nbytes == path.stat().st_size
        assert {t.name: (t.dtype, t.shape) for t in file.tensors.values()} == {
            "a": ("f32", (2, 3)),
            "b": ("f16", (2, 3)),
            "c": ("bf16", (2, 3)),
            "bytes": ("u8", (5,)),
            "signed": ("i8", (4,)),
            "empty": ("f32", (0, 4)),
            "scalar": ("f32", ()),
        }
        for name in "abc":  # all exact in bfloat16
            assert np.array_equal(file.tensors[name].dequantize(), VALUES)
        assert file.tensors["bytes"].data.tolist() == [0, 1, 2, 3, 4]
        assert file.tensors["signed"].data.view(np.int8).tolist() == [-2, -1, 0, 1]
        with pytest.raises(UnsupportedError, match="'bytes' has block type u8"):
            file.tensors["bytes"].dequantize()


# From https://github.com/huggingface/safetensors: every type that the format has, bits of a value.
TYPES = dict.fromkeys(("U64", "I64", "F64", "C64"), 64)
TYPES |= dict.fromkeys(("U32", "I32", "F32"), 32)
TYPES |= dict.fromkeys(("U16", "I16", "F16", "BF16"), 16)
TYPES |= dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8)
TYPES |= dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
TYPES |= {"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}


def test_tensors_of_every_type_lie_one_behind_the_other(tmp_path):
    header, at = {}, 0
    for name, bits in TYPES.items():
        header[name] = {"dtype": name, "shape": [2, 4], "data_offsets": [at, at + bits]}
        at += bits  # eight values
    data = bytes(range(256)) * 2
    file = open_safetensors(write(tmp_path, build_raw(header, data[:at])))
    for name, described in header.items():
        tensor = file.tensors[name]
        assert (tensor.dtype, tensor.shape) == (name.lower(), (2, 4))
        assert bytes(tensor.data) == data[slice(*described["data_offsets"])]


def test_the_file_that_is_mapped_is_the_one_that_is_parsed(tmp_path):
    """Another one took its name in between: its header would be of other bytes."""
    path = write(tmp_path, build_safetensors({"a": entry(VALUES)}))
    with mapped(path, "a file") as mapping:
        other = tmp_path / "other"
        other.write_bytes(build_safetensors({"b": entry(VALUES)}))
        other.replace(path)
        with safe_open(mapping.reopened, framework="numpy") as file:
            assert file.keys() == ["a"]


def test_the_package_is_imported_by_the_first_file(tmp_path):
    """The window starts without it."""
    path = write(tmp_path, build_safetensors({"a": entry(VALUES)}))
    code = (
        "import sys\n"
        "import llm_lite.desktop.app.app\n"
        "from llm_lite.core.formats.safetensors_reader import open_safetensors\n"
        "print('safetensors' in sys.modules)\n"
        f"open_safetensors({str(path)!r})\n"
        "print('safetensors' in sys.modules, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\nTrue False\n", done


def test_a_folder_of_any_name(tmp_path):
    folder = tmp_path / os.fsdecode(b"not UTF-8: \xff")
    folder.mkdir()
    write(folder, build_safetensors({"a": entry(VALUES)}))
    assert list(open_folder(folder).tensors) == ["a"]


def test_tensors_are_mapped_read_only_and_outlive_the_file(tmp_path):
    path = write(tmp_path, build_safetensors({"a": entry(VALUES)}))
    with open_safetensors(path) as file:
        tensor = file.tensors["a"]
    assert not file.tensors
    assert not tensor.data.flags.writeable
    assert not tensor.data.flags.owndata
    path.unlink()
    assert np.array_equal(tensor.dequantize(), VALUES)


def test_order_in_the_header_need_not_be_that_of_the_data(tmp_path):
    header = {
        "late": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
        "early": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
    }
    file = open_safetensors(write(tmp_path, build_raw(header, b"abc")))
    assert bytes(file.tensors["late"].data) == b"bc"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
            lambda name: name != "__metadata__"
        ),
        hnp.arrays(st.sampled_from(["<f4", "<f2", "u1", "<i8"]), hnp.array_shapes(max_dims=4)),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_tensors_come_back(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("st") / "model.safetensors"
    path.write_bytes(build_safetensors({name: entry(a) for name, a in arrays.items()}))
    file = open_safetensors(path)
    assert set(file.tensors) == set(arrays)
    for name, array in arrays.items():
        assert file.tensors[name].shape == array.shape
        assert bytes(file.tensors[name].data) == array.tobytes()


def one(**changes):
    fields = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    return build_raw({"t": {k: v for k, v in fields.items() if v is not None}}, bytes(8))


def two(first, second, size=8):
    entries = {
        name: {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for name, (begin, end) in {"a": first, "b": second}.items()
    }
    return build_raw(entries, bytes(size))


BAD = {
    "empty": (b"", "is empty, expected a safetensors file"),
    "seven bytes": (bytes(7), "truncated: the length of the header"),
    "GGUF": (b"GGUF" + bytes(60), "truncated: the header|is not a safetensors file"),
    "2^60 header": (struct.pack("<Q", 1 << 60) + b"{}", "not a safetensors file: its header"),
    "header past the end": (struct.pack("<Q", 100) + b"{}", "the header at byte 8 needs 100"),
    "not UTF-8": (build_raw(b'{"\xff": 1}'), "the header is not valid UTF-8 at byte 2"),
    "not JSON": (build_raw(b"{,}"), "the header is not valid JSON"),
    "nested": (build_raw(b"[" * 200000), "the header nests too deep"),
    "digits": (build_raw(b'{"t": ' + b"9" * 9999 + b"}"), "the header is not valid JSON"),
    "infinite": (build_raw(b'{"t": 1e999}'), "number 1e999 is not finite"),
    "a list": (build_raw([]), "the header is a list of 0, expected a JSON object"),
    "twice": (build_raw(b'{"t": 1, "t": 2}'), "key 't' appears twice"),
    "entry null": (build_raw({"t": None}), "tensor 't' is null, expected an object"),
    "lone surrogate": (build_raw(b'{"\\ud800": {}}'), "not valid Unicode"),
    "metadata": (build_raw({"__metadata__": [1]}), "__metadata__ is a list of 1"),
    "metadata value": (build_raw({"__metadata__": {"k": 1}}), "__metadata__ 'k' is 1, expected a"),
    "no dtype": (one(dtype=None), "tensor 't' has no dtype"),
    "no shape": (one(shape=None), "tensor 't' has no shape"),
    "no offsets": (one(data_offsets=None), "tensor 't' has no data_offsets"),
    "dtype": (one(dtype="Q4"), "tensor 't' has dtype 'Q4', expected one of"),
    "dtype number": (one(dtype=4), "tensor 't' has dtype 4, expected one of"),
    "shape text": (one(shape="2"), "tensor 't' has shape '2', expected a list"),
    "shape bool": (one(shape=[True, 2]), "has shape a list of 2, expected a list of integers"),
    "shape float": (one(shape=[2.0]), "has shape a list of 1, expected a list of integers"),
    "shape negative": (one(shape=[-2]), r"tensor 't' has shape \[-2\], but the file has 8"),
    "shape huge": (one(shape=[1 << 62, 4]), r"tensor 't' has shape \[4611686018427387904, 4\]"),
    "shape product": (one(shape=[4, 4]), r"of F32 \(4, 4\) has 8 bytes, expected 64"),
    "dimensions": (one(shape=[1] * 9), "tensor 't' has 9 dimensions, expected at most 8"),
    "dimensions that fit": (
        one(shape=[2, *[1] * 8]),
        "tensor 't' has 9 dimensions, expected at most 8",
    ),
    "empty and huge": (
        one(shape=[0, 1 << 60], data_offsets=[0, 0]),
        r"tensor 't' has shape \[0, 1152921504606846976\], but the file has 8",
    ),
    "half a byte": (
        one(dtype="F4", shape=[3], data_offsets=[0, 2]),
        r"of F4 \(3,\) has 2 bytes, expected 1.5",
    ),
    "offsets one": (one(data_offsets=[8]), "data_offsets a list of 1, expected two integers"),
    "offsets bool": (one(data_offsets=[False, 8]), "expected two integers"),
    "offsets down": (one(data_offsets=[8, 0]), r"data_offsets \[8, 0\], expected an ascending"),
    "offsets minus": (one(data_offsets=[-8, 0]), r"data_offsets \[-8, 0\], expected an ascending"),
    "past the end": (one(shape=[3], data_offsets=[0, 12]), "up to 8, the bytes of data"),
    "2^64": (one(data_offsets=[0, 1 << 64]), "data_offsets .*expected an ascending pair"),
    "too few bytes": (one(data_offsets=[0, 4]), r"of F32 \(2,\) has 4 bytes, expected 8"),
    "overlap": (two((0, 5), (4, 8)), "tensor 'b' begins at byte 4 .*expected 5, where tensor 'a'"),
    "gap": (two((0, 4), (5, 8)), "tensor 'b' begins at byte 5 of the data, expected 4"),
    "gap before": (two((1, 4), (4, 8)), "tensor 'a' begins at byte 1, expected 0"),
    "rest": (two((0, 4), (4, 7)), "the tensors end at byte 7 of the data, but the file has 8"),
    "no tensors": (
        build_raw({}, b"x"),
        "the tensors end at byte 0 of the data, but the file has 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(case, tmp_path):
    raw, message = BAD[case]
    path = write(tmp_path, raw)
    with pytest.raises(FileError, match=message) as caught:
        open_safetensors(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(caught.value.problem) < 400


def test_the_case_that_the_bad_ones_change_is_good(tmp_path):
    assert open_safetensors(write(tmp_path, one())).tensors["t"].shape == (2,)
    assert len(open_safetensors(write(tmp_path, two((0, 4), (4, 8)))).tensors) == 2


def test_truncated_at_every_byte(tmp_path):
    raw = build_safetensors({"a": entry(VALUES), "b": entry(VALUES)}, {"k": "v"})
    for length in range(len(raw)):
        with pytest.raises(FileError):
            open_safetensors(write(tmp_path, raw[:length]))


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        open_safetensors(tmp_path / "none")
    with pytest.raises(FileError, match="is a directory, expected a safetensors file"):
        open_safetensors(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        open_safetensors(tmp_path / "pipe")


SHARDS = {
    "model-00001-of-00002.safetensors": {"a": entry(VALUES)},
    "model-00002-of-00002.safetensors": {"b": entry(VALUES + 1), "c": entry(VALUES + 2)},
}


def test_shards_are_one_model(tmp_path):
    file = open_sharded(write_shards(tmp_path, SHARDS))
    assert sorted(file.tensors) == ["a", "b", "c"]
    assert np.array_equal(file.tensors["c"].dequantize(), VALUES + 2)
    assert file.nbytes == sum((tmp_path / name).stat().st_size for name in SHARDS)
    assert sorted(open_folder(tmp_path).tensors) == ["a", "b", "c"]


def test_a_folder_holds_one_file_or_an_index(tmp_path):
    with pytest.raises(FileError, match=r"holds no weights: expected model.safetensors or"):
        open_folder(tmp_path)
    write(tmp_path, build_safetensors({"a": entry(VALUES)}))
    assert list(open_folder(tmp_path).tensors) == ["a"]


def test_a_missing_shard_is_named(tmp_path):
    index = write_shards(tmp_path, SHARDS)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileError, match=r"00002-of-00002.safetensors: no such file, but model\.s"):
        open_sharded(index)


def test_a_shard_with_more_and_one_of_another_model(tmp_path):
    index = write_shards(tmp_path, SHARDS)
    shard = tmp_path / "model-00001-of-00002.safetensors"
    shard.write_bytes(build_safetensors({"a": entry(VALUES), "x": entry(VALUES)}))
    file = open_sharded(index)
    assert (sorted(file.tensors), file.unlisted) == (["a", "b", "c"], ("x",))
    shard.write_bytes(build_safetensors({"x": entry(VALUES)}))
    with pytest.raises(FileError, match=r"00001.*tensor 'a' is missing.*of another model"):
        open_sharded(index)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "weight_map is missing or empty"),
        ({"weight_map": {}}, "weight_map is missing or empty"),
        ({"weight_map": {"a": 3}}, "tensor 'a' is in 3, expected a file's name"),
        ({"weight_map": {"a": "../a"}}, "tensor 'a' is in '../a', expected a file's name"),
        ({"weight_map": {"a": ".."}}, "expected a file's name"),
        ({"weight_map": {"a": "x" * 300}}, "expected a file's name"),
        ({"weight_map": {"a": "a\0"}}, "expected a file's name"),
    ],
)
def test_bad_index(index, message, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    with pytest.raises(FileError, match=message):
        open_sharded(path)
