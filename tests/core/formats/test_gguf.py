"""The reader against the gguf package's writer and numbers, and its face towards callers."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType

from llm_lite.core.errors import CancelledError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.hub import catalog
from llm_lite.core.quant.registry import FORMATS, GGUF_FORMATS
from llm_lite.core.quant.tensor import find_non_finite
from tests.counting import python_calls
from tests.make_gguf import Tensor, TinyLlama, build_gguf, llama_tensors, write_tiny_llama
from tests.weight_blocks import random_blocks

SCALARS = {
    "k.uint8": 200,
    "k.int8": -100,
    "k.uint16": 60000,
    "k.int16": -30000,
    "k.uint32": 4_000_000_000,
    "k.int32": -2_000_000_000,
    "k.float32": 0.5,
    "k.uint64": 2**63 + 1,
    "k.int64": -(2**62),
    "k.float64": 1e300,
    "k.bool": True,
    "k.string": "naïve 한국어 🙂",
}
ARRAYS = {
    "a.strings": ["", "one", "한국어", "x" * 300],
    "a.ints": [1, -2, 3],
    "a.floats": [0.5, -1.25],
    "a.bools": [True, False, True],
}


@pytest.fixture(scope="module")
def written_by_ggml(tmp_path_factory):
    """Every scalar type, array and block type, and the values (float32) of each tensor."""
    path = tmp_path_factory.mktemp("gguf") / "all.gguf"
    writer = gguf.GGUFWriter(path, "test")
    for key, value in SCALARS.items():
        getattr(writer, f"add_{key[2:]}")(key, value)
    for key, value in ARRAYS.items():
        writer.add_array(key, value)
    rng, values = np.random.default_rng(0), {}
    for name in GGUF_FORMATS:
        form, kind = FORMATS[name], GgmlType[name.upper()]
        shape = (3, 5, 64) if name == "f32" else (5, max(64, form.block_size))
        if form.block_size <= 32 and name != "iq4_nl":
            blocks = gguf.quants.quantize(rng.normal(size=shape).astype(np.float32), kind)
        else:
            blocks = random_blocks(name, shape).reshape(5, -1)
        writer.add_tensor(f"t.{name}", blocks, raw_dtype=kind)
        if name == "q1_0":  # which the package cannot decode
            values[f"t.{name}"] = form.dequantize(blocks.reshape(-1), shape)
        else:
            values[f"t.{name}"] = gguf.quants.dequantize(blocks, kind).reshape(shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, values


def test_every_scalar_type(written_by_ggml):
    with open_gguf(written_by_ggml[0]) as file:
        read = {key: file.metadata[key] for key in SCALARS}
    assert read == SCALARS
    assert {key: type(value) for key, value in read.items()} == {
        key: type(value) for key, value in SCALARS.items()
    }


def test_arrays_read_as_lists(written_by_ggml):
    metadata = open_gguf(written_by_ggml[0]).metadata
    for key, expected in ARRAYS.items():
        assert metadata[key] == expected
        assert list(metadata[key]) == expected
        assert (len(metadata[key]), metadata[key][-1]) == (len(expected), expected[-1])
        assert metadata[key][1:] == expected[1:]
    assert metadata["a.bools"][0] is True
    assert metadata["a.ints"] != [1, -2]


def test_every_tensor(written_by_ggml):
    path, values = written_by_ggml
    file = open_gguf(path)
    assert list(file.tensors) == list(values)
    for name, expected in values.items():
        tensor = file.tensors[name]
        assert (tensor.name, tensor.dtype) == (name, name[2:])
        assert tensor.shape == expected.shape
        assert np.array_equal(tensor.dequantize(), expected)
        assert not tensor.data.flags.writeable
        assert not tensor.data.flags.owndata
        assert tensor.nbytes == FORMATS[tensor.dtype].nbytes(expected.shape)


@pytest.mark.parametrize("alignment", [8, 64, 4096])
@pytest.mark.parametrize("version", [2, 3])
def test_versions_and_alignments(tmp_path, version, alignment):
    path = tmp_path / "a.gguf"
    tensors = {n: Tensor("f32", (3,), np.full(3, i, "<f4").tobytes()) for i, n in enumerate("abc")}
    metadata = {"general.alignment": alignment}
    path.write_bytes(build_gguf(metadata, tensors, version=version, alignment=alignment))
    file = open_gguf(path)
    assert file.version == version
    assert [t.dequantize().tolist() for t in file.tensors.values()] == [[0] * 3, [1] * 3, [2] * 3]


def test_header_without_tensors(tmp_path):
    path = tmp_path / "vocab.gguf"
    path.write_bytes(build_gguf({"general.architecture": "llama"}, {}).rstrip(b"\0"))
    assert dict(open_gguf(path).tensors) == {}


def test_vocabulary_of_arbitrary_bytes_survives(tmp_path):
    words = [b"\xff\xfe", b"ok", b"\xed\xa0\x80"]
    path = tmp_path / "v.gguf"
    path.write_bytes(build_gguf({"v": words, "scalar": b"a\xffb"}, {}))
    metadata = open_gguf(path).metadata
    assert [word.encode("utf-8", "surrogateescape") for word in metadata["v"]] == words
    assert metadata["scalar"] == "a\ufffdb"  # shown to people, so always printable


def test_tensors_outlive_the_file(tmp_path):
    path = write_tiny_llama(tmp_path / "tiny.gguf")
    with open_gguf(path) as file:
        tensor = file.tensors["output_norm.weight"]
    assert not file.tensors
    path.unlink()
    assert np.isfinite(tensor.dequantize()).all()


def test_progress_rises_to_one_and_may_cancel(tmp_path):
    path, heard = write_tiny_llama(tmp_path / "tiny.gguf"), []
    open_gguf(path, heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 1

    def cancel(part):
        raise CancelledError("loading was cancelled")

    with pytest.raises(CancelledError):
        open_gguf(path, cancel)


@pytest.mark.parametrize("dtype", GGUF_FORMATS)
@pytest.mark.parametrize("tied", [True, False])
def test_tiny_llama_is_what_the_package_reads(tmp_path, dtype, tied):
    size = TinyLlama.fitting(dtype, tied=tied, vocab=280)
    path = write_tiny_llama(tmp_path / "t.gguf", dtype=dtype, tied=tied, vocab=280)
    ours, theirs = open_gguf(path), gguf.GGUFReader(path)
    assert dict(ours.metadata) == {key: theirs.fields[key].contents() for key in ours.metadata}
    assert {n: (t.shape, t.data.tobytes()) for n, t in ours.tensors.items()} == {
        t.name: (tuple(map(int, t.shape[::-1])), t.data.tobytes()) for t in theirs.tensors
    }
    assert set(ours.tensors) == set(llama_tensors(size))
    assert ("output.weight" in ours.tensors) != tied


@pytest.mark.parametrize("dtype", [name for name in GGUF_FORMATS if name != "nvfp4"])
def test_find_non_finite(tmp_path, dtype):
    file = open_gguf(write_tiny_llama(tmp_path / "t.gguf", dtype=dtype))
    assert not any(find_non_finite(tensor) for tensor in file.tensors.values())
    raw = bytearray((tmp_path / "t.gguf").read_bytes())
    last_block = FORMATS[dtype].block_bytes
    embedding = file.tensors["token_embd.weight"].data
    at = raw.index(embedding.tobytes()) + embedding.size - last_block
    raw[at : at + last_block] = b"\xff" * last_block
    (tmp_path / "bad.gguf").write_bytes(raw)
    bad = open_gguf(tmp_path / "bad.gguf")
    assert [n for n, t in bad.tensors.items() if find_non_finite(t)] == ["token_embd.weight"]


@pytest.fixture(scope="module")
def file():
    return open_gguf(catalog.resolve(None))


class TestSmolLM2:
    def test_opens_without_making_its_words(self):
        """Of 49,152 tokens and about as many merges only the lengths are read."""
        assert python_calls(lambda: open_gguf(catalog.resolve(None))) < 150_000

    def test_metadata(self, file):
        assert len(file.metadata) == 33
        assert file.metadata["general.architecture"] == "llama"
        assert file.metadata["llama.attention.head_count_kv"] == 3
        assert file.metadata["llama.rope.freq_base"] == 100000.0
        assert file.metadata["tokenizer.ggml.pre"] == "smollm"
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
        assert file.metadata["tokenizer.ggml.tokens"][:2] == ["<|endoftext|>", "<|im_start|>"]
        assert file.metadata["tokenizer.ggml.merges"][0] == "Ġ t"
        assert file.metadata["tokenizer.ggml.token_type"][:4] == [3, 3, 3, 3]

    def test_tensors(self, file):
        dtypes = [tensor.dtype for tensor in file.tensors.values()]
        assert {d: dtypes.count(d) for d in dtypes} == {"q8_0": 1, "f32": 61, "q4_1": 210}
        assert file.tensors["token_embd.weight"].shape == (49152, 576)
        assert file.tensors["blk.29.ffn_down.weight"].shape == (576, 1536)
        assert file.tensors["blk.0.attn_k.weight"].shape == (192, 576)
        assert file.tensors["output_norm.weight"].shape == (576,)

    @pytest.mark.parametrize("name", ["token_embd", "blk.0.attn_q", "blk.29.ffn_down"])
    def test_values_are_those_of_ggml(self, file, name):
        tensor = file.tensors[f"{name}.weight"]
        kind = GgmlType[tensor.dtype.upper()]
        rows = tensor.data.reshape(tensor.shape[0], -1)[-2000:]
        expected = gguf.quants.dequantize(rows, kind)
        assert np.array_equal(tensor.dequantize()[-2000:], expected)

    def test_weights_are_finite(self, file):
        assert not any(find_non_finite(tensor) for tensor in file.tensors.values())
