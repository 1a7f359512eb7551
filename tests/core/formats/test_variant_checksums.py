"""Checksums of variants: written with them, read strictly, and not needed in old ones."""

import json
import zlib

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.formats.variant_reader import open_variant
from llm_lite.core.loading.verification import variant_parts, verify
from tests.core.formats.test_variant import change_manifest, write


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "v")


def checksums(folder):
    return json.loads((folder / "variant.json").read_text())["checksums"]


def problems(folder):
    return [str(p) for p in verify(variant_parts(open_variant(folder))) if p is not None]


def test_there_is_one_for_each_tensor_and_each_file(folder):
    written, opened = checksums(folder), open_variant(folder)
    assert written["algorithm"] == "crc32"
    for name, tensor in opened.tensors.items():
        assert int(written["tensors"][name], 16) == zlib.crc32(tensor.data.tobytes())
    assert int(written["files"]["metadata.json"], 16) == zlib.crc32(
        (folder / "metadata.json").read_bytes()
    )
    assert set(written["tensors"]) == set(opened.tensors)
    assert opened.checksums is not None
    assert problems(folder) == []


def test_old_variants_open_without(folder):
    change_manifest(folder, checksums=None)  # leaves the field out
    opened = open_variant(folder)
    assert opened.checksums is None
    assert {part.checksum for part in variant_parts(opened)} == {None}
    assert problems(folder) == []


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "v"])
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("bit", [0, 7])
def test_one_bit_is_found_and_named(folder, name, place, bit):
    tensor, weights = open_variant(folder).tensors[name], folder / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    at = raw.rindex(tensor.data.tobytes())  # v begins as a does
    raw[at + (place % tensor.nbytes)] ^= 1 << bit
    del tensor
    weights.write_bytes(raw)
    (found,) = problems(folder)
    assert found.startswith(f"{weights}: tensor {name} is damaged: expected checksum ")


@pytest.mark.parametrize("name", ["metadata.json", "model.safetensors"])
def test_damaged_documents_are_found(folder, name):
    file = folder / name
    raw = file.read_bytes()
    if name == "metadata.json":
        raw = raw.replace(b'"x"', b'"y"')
    else:
        raw = raw.replace(b'"mode":"int4"', b'"mode":"int8"')
    file.write_bytes(raw)
    (found,) = problems(folder)
    assert found.startswith(f"{file}: ")
    assert "is damaged: expected checksum" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: 3, "checksums is 3, expected an object"),
        (lambda c: [c], "checksums is a list of 1, expected an object"),
        (lambda c: c | {"algorithm": "md5"}, "algorithm is 'md5', expected 'crc32'"),
        (lambda c: c | {"algorithm": None}, "algorithm is null, expected 'crc32'"),
        (lambda c: c | {"header": 7}, "header is 7, expected eight hex digits"),
        (lambda c: c | {"header": "0" * 9}, "header is '000000000', expected eight hex digits"),
        (lambda c: c | {"tensors": []}, "tensors is a list of 0, expected an object"),
        (lambda c: c | {"files": "x"}, "files is 'x', expected an object"),
        (lambda c: c | {"files": {}}, "files lacks 'metadata.json'"),
        (lambda c: c | {"files": c["files"] | {"z": "0" * 8}}, "files has 'z', unlike the variant"),
        (lambda c: c | {"tensors": {}}, "tensors lacks 'a', unlike the variant"),
        (lambda c: c | {"tensors": c["tensors"] | {"z": "0" * 8}}, "tensors has 'z'"),
        (lambda c: c | {"tensors": c["tensors"] | {"a": True}}, "tensors: 'a' is true, expected"),
        (lambda c: c | {"tensors": c["tensors"] | {"a": "0000000G"}}, "tensors: 'a' is '0000000G'"),
    ],
)
def test_bad_checksums_are_refused(folder, change, message):
    change_manifest(folder, checksums=change(checksums(folder)))
    with pytest.raises(FileError) as caught:
        open_variant(folder)
    assert str(caught.value).startswith(f"{folder / 'variant.json'}: checksums")
    assert message in str(caught.value)


def test_null_is_no_old_variant(folder):
    file = folder / "variant.json"
    content = json.loads(file.read_text()) | {"checksums": None}
    file.write_text(json.dumps(content))
    with pytest.raises(FileError, match="checksums is null, expected an object"):
        open_variant(folder)
