"""Everything that can be wrong with a file is one FileError that names what and where."""

import os
import struct

import numpy as np
import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.quant.registry import FORMATS, GGML_TYPES, GGUF_FORMATS
from tests.make_gguf import (
    Tensor,
    Typed,
    build_gguf,
    quantized,
    string_bytes,
    tensor_info_bytes,
    value_bytes,
)

HUGE = 1 << 60


def vector(count=8):
    return Tensor("f32", (count,), np.ones(count, "<f4").tobytes())


def header(tensors=0, pairs=0, version=3):
    return struct.pack("<4sIQQ", b"GGUF", version, tensors, pairs)


def info(name="t", dims=(8,), kind=0, offset=0):
    packed = struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return string_bytes(name) + packed


def nested(depth):
    """An array in an array ... `depth` deep, holding one byte."""
    value = Typed(9, [7], 0)
    for _ in range(depth - 1):
        value = Typed(9, [value], 9)
    return value


def one_tensor(**changes):
    """A file of 64 data bytes and one tensor, its info changed."""
    raw = header(tensors=1) + info(**changes)
    return raw + bytes(-len(raw) % 32) + bytes(64)


def two_tensors(first, second):
    raw = header(tensors=2) + info("a", offset=first) + info("b", offset=second)
    return raw + bytes(-len(raw) % 32) + bytes(128)


def pair(key, raw_value):
    return header(pairs=1) + string_bytes(key) + raw_value + bytes(64)


BAD = {
    "empty": (b"", "is empty"),
    "not a GGUF": (b"PK\x05\x06" + bytes(100), r"not a GGUF file.*b'PK.*expected b'GGUF'"),
    "one byte": (b"G", "truncated: the magic number at byte 0 needs 4 bytes"),
    "version 1": (header(version=1) + bytes(99), "GGUF version 1, expected 2 or 3"),
    "version 4": (header(version=4) + bytes(99), "GGUF version 4"),
    "version 0": (header(version=0) + bytes(99), "GGUF version 0"),
    "big-endian": (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "big-endian"),
    "2^60 tensors": (header(tensors=HUGE) + bytes(99), f"number of tensors is {HUGE}"),
    "2^60 pairs": (header(pairs=HUGE) + bytes(99), f"number of metadata pairs is {HUGE}"),
    "2^60 key": (header(pairs=1) + struct.pack("<Q", HUGE) + bytes(99), "key of metadata pair 0"),
    "2^60 name": (header(tensors=1) + struct.pack("<Q", HUGE) + bytes(99), "name of tensor 0"),
    "2^60 string": (pair("k", struct.pack("<IQ", 8, HUGE)), f"'k' is {HUGE}"),
    "2^60 numbers": (pair("k", struct.pack("<IIQ", 9, 4, HUGE)), "number of elements.*'k'"),
    "2^60 strings": (pair("k", struct.pack("<IIQ", 9, 8, HUGE)), "number of elements.*'k'"),
    "2^60 arrays": (pair("k", struct.pack("<IIQ", 9, 9, HUGE)), "number of elements.*'k'"),
    "2^64-1 numbers": (pair("k", struct.pack("<IIQ", 9, 11, 2**64 - 1)), "number of elements"),
    "2^60 in strings": (pair("k", struct.pack("<IIQQ", 9, 8, 2, HUGE)), "strings of.*'k'"),
    "last string": (pair("k", struct.pack("<IIQQ", 9, 8, 1, HUGE)), "last of the strings of.*'k'"),
    "value type": (pair("k", struct.pack("<I", 13)), "'k' has type 13"),
    "element type": (pair("k", struct.pack("<IIQ", 9, 77, 1)), "'k' is an array of type 77"),
    "bool of 2": (pair("k", struct.pack("<IB", 7, 2)), "'k' is a bool of byte 2"),
    "nesting": (pair("k", value_bytes(nested(5))), "'k' nests arrays deeper than 4"),
    "deep nesting": (pair("k", struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000), "nests"),
    "key not UTF-8": (pair(b"k\xff", struct.pack("<IB", 0, 1)), "key of.*0 is not valid UTF-8"),
    "name not UTF-8": (one_tensor(name=b"\xc3("), "name of tensor 0 is not valid UTF-8"),
    "no dimensions": (one_tensor(dims=()), "'t' has 0 dimensions, expected 1 to 4"),
    "5 dimensions": (one_tensor(dims=(1,) * 5), "'t' has 5 dimensions, expected 1 to 4"),
    "zero dimension": (one_tensor(dims=(8, 0)), r"'t' has shape \(0, 8\)"),
    "overflowing shape": (one_tensor(dims=(2**32, 2**32)), r"'t' has shape \(4294967296, "),
    "wrapping shape": (one_tensor(dims=(2**63, 2, 2**63, 2)), "'t' has shape"),
    "unknown type": (one_tensor(kind=99), "'t' has unknown block type 99, .*q4_0.*iq2_xxs"),
    "part of a block": (one_tensor(dims=(33,), kind=3), "'t' has rows of 33.*multiple of 32"),
    **{
        f"part of a block of {name}": (
            one_tensor(dims=(form.block_size + 32, 2), kind=form.ggml_type),
            f"'t' has rows of {form.block_size + 32} values, "
            f"expected a multiple of {form.block_size}$",
        )
        for name, form in FORMATS.items()
        if form.ggml_type is not None and form.block_size > 32
    },
    "past the end": (one_tensor(dims=(17,)), "'t' ends at byte 132, but the file has 128"),
    "offset past the end": (one_tensor(offset=64), "'t' ends at byte"),
    "offset 2^64-32": (one_tensor(offset=2**64 - 32), "'t' ends at byte 18446744073709551"),
    "misaligned": (one_tensor(offset=8), "'t' has offset 8, expected a multiple.* 32"),
    "overlap": (two_tensors(32, 32), "'b' begins at offset 32 and overlaps tensor 'a'"),
    "overlap before": (two_tensors(32, 0) + bytes(9), None),
    "same tensor twice": (
        header(tensors=2) + info("same") + info("same", offset=32) + bytes(200),
        "tensor 'same' appears twice",
    ),
    "same key twice": (
        header(pairs=2) + (string_bytes("same") + value_bytes(1)) * 2 + bytes(64),
        "metadata key 'same' appears twice",
    ),
    **{
        f"alignment {value!r}": (
            build_gguf({"general.alignment": value}, {"t": vector()}),
            "general.alignment is .*expected a power of two",
        )
        for value in (0, 1, 24, 33, True, "32", 32.0, [32], Typed(5, -32))
    },
    "alignment 2^31": (
        build_gguf({"general.alignment": 1 << 31}, {"t": vector()}),
        "'t' ends at byte 2147483680",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(case, tmp_path):
    raw, message = BAD[case]
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw)
    if message is None:  # a neighbour of a bad case that must be accepted
        assert open_gguf(path).tensors
        return
    with pytest.raises(FileError, match=message) as caught:
        open_gguf(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert len(caught.value.problem) < 400


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        (4, "q4_2", "was withdrawn"),
        (9, "q8_1", "is of activations"),
        (15, "q8_k", "is of activations"),
        (26, "i32", "is not of weights"),
        (28, "f64", "is not of weights"),
        (31, "q4_0_4_4", "was withdrawn"),
        (42, "q2_0", "there are two layouts"),
    ],
)
def test_known_block_type_that_is_not_supported_is_named(kind, name, why, tmp_path):
    path = tmp_path / "k.gguf"
    path.write_bytes(one_tensor(dims=(256,), kind=kind))
    sentence = f"k.gguf: tensor 't'.*{name} \\({kind}\\), .*{why}.*; expected one of f32.*q4_1"
    with pytest.raises(UnsupportedError, match=sentence):
        open_gguf(path)


def test_every_type_that_ggml_numbers_is_read_or_refused_with_a_reason(tmp_path):
    for kind, name in GGML_TYPES.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(one_tensor(dims=(256,), kind=kind) + bytes(2048))
        if name in GGUF_FORMATS:
            assert open_gguf(path).tensors["t"].dtype == name
        else:
            with pytest.raises(UnsupportedError) as caught:
                open_gguf(path)
            assert "not supported" not in str(caught.value)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(FileError, match=r"none\.gguf: no such file"):
        open_gguf(tmp_path / "none.gguf")
    with pytest.raises(FileError, match="is a directory"):
        open_gguf(tmp_path)
    with pytest.raises(FileError, match="not a regular file"):
        open_gguf("/dev/null")
    with pytest.raises(FileError, match="cannot be read"):
        open_gguf("nul\0.gguf")
    with pytest.raises(FileError, match="cannot be read: File name too long"):
        open_gguf("x" * 5000)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        open_gguf(tmp_path / "pipe")


def test_no_permission(tmp_path, monkeypatch):
    path = tmp_path / "secret.gguf"
    path.write_bytes(build_gguf({}, {}))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(FileError, match=r"secret\.gguf: cannot be read: Permission denied"):
        open_gguf(path)


def test_long_and_strange_names_stay_on_one_line(tmp_path):
    path = tmp_path / "long.gguf"
    path.write_bytes(one_tensor(name="new\nline" + "x" * 9000, kind=99))
    with pytest.raises(FileError) as caught:
        open_gguf(path)
    assert "new\\nline" in caught.value.problem
    assert "\n" not in caught.value.problem
    assert len(caught.value.problem) < 400


def small_file():
    metadata = {
        "general.architecture": "llama",
        "count": 3,
        "wide": Typed(12, 1.5),
        "flag": True,
        "words": ["a", "bc", ""],
        "numbers": [1, 2, 3],
        "nested": nested(3),
    }
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    tensors = {"norm": quantized("f32", values[0]), "matrix": quantized("q4_1", values)}
    return build_gguf(metadata, tensors)


def test_truncated_at_every_byte(tmp_path):
    """40 bytes of the last tensor are followed by padding, which may be missing."""
    raw = small_file()
    path = tmp_path / "cut.gguf"
    end_of_data = len(raw) - 24
    for length in range(end_of_data):
        path.write_bytes(raw[:length])
        with pytest.raises(FileError):
            open_gguf(path)
    for length in range(end_of_data, len(raw) + 1):
        path.write_bytes(raw[:length])
        assert len(open_gguf(path).tensors) == 2


def test_tensor_info_builder_is_what_the_reader_reads(tmp_path):
    """The hand-made infos of this file and the builder agree, so the cases above test something."""
    assert info("t", (8,), 0, 0) == tensor_info_bytes("t", vector(), 0)
    path = tmp_path / "good.gguf"
    path.write_bytes(one_tensor())
    assert open_gguf(path).tensors["t"].shape == (8,)
