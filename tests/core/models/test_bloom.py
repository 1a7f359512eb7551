"""BLOOM: its table of positions is bounded, and its fused biases are cut."""

import numpy as np
import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.gguf_reader import open_gguf, read_metadata
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.description.tensors import split_rows
from llm_lite.core.models.registry import ARCHITECTURES
from llm_lite.core.quant.tensor import TensorData
from tests.families import family_of
from tests.family_checks import write_case, write_gguf

BLOOM = family_of("bloom")


def test_a_table_of_positions_is_bounded(tmp_path):
    """It is made when the file is read: a context of 16 million was half a GiB."""
    path = tmp_path / "bloom.gguf"
    write_gguf(BLOOM, "plain", path)
    metadata = {**read_metadata(path), "bloom.context_length": 1 << 24}
    tensors = open_gguf(path).tensors
    with pytest.raises(FileError, match=r"bloom\.context_length: expected 1 to 131072, found 1677"):
        ARCHITECTURES["bloom"].complete(metadata, tensors, path)
    folder = write_case(BLOOM, "plain", tmp_path / "m", raw=True, seq_length=1 << 24)
    with pytest.raises(FileError, match="seq_length is 16777216, expected 1 to 131072"):
        open_source(folder)


def test_heads_that_no_tensor_has_make_no_table(tmp_path):
    path = tmp_path / "bloom.gguf"
    write_gguf(BLOOM, "plain", path)
    metadata = dict(read_metadata(path))
    metadata |= {"bloom.attention.head_count": 4096, "bloom.embedding_length": 8192}
    raw = open_gguf(path).tensors
    with pytest.raises(FileError, match=r"expected 49248 rows"):
        ARCHITECTURES["bloom"].complete(metadata, raw, path)


def test_biases_of_blocks_are_cut_between_blocks(tmp_path):
    """A fused bias of two blocks, of which each of its three parts would have two thirds."""
    dtype, width = "q4_0", 32
    bias = TensorData("blk.0.attn_qkv.bias", dtype, (3 * width,), np.zeros(3 * 18, np.uint8))
    parts = {f"blk.0.attn_{one}.bias": width for one in "qkv"}
    assert [part.nbytes for part in split_rows(bias, parts, tmp_path)] == [18] * 3
    bias = TensorData("blk.0.attn_qkv.bias", dtype, (96,), np.zeros(3 * 18, np.uint8))
    with pytest.raises(UnsupportedError, match="48 rows are no whole blocks"):
        split_rows(bias, {"a": 48, "b": 48}, tmp_path)
