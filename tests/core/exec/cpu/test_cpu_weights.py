"""Weights as the C++ kernels read them: tiles hold what the rows hold, once for all executors."""

import gc
import weakref

import numpy as np
import pytest

from llm_lite.core.exec.cpu.weights import for_products, readable
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData


def _weight(dtype, rows=20, columns=96):
    values = np.random.default_rng(1).normal(0, 1, (rows, columns)).astype(np.float32)
    return TensorData("w", dtype, (rows, columns), FORMATS[dtype].quantize(values))


@pytest.mark.parametrize("scales", [1, 2])
def test_four_bit_tiles_have_the_words_of_their_rows_side_by_side(scales):
    weight = _weight("q4_0" if scales == 1 else "q4_1")
    laid_out = for_products([weight])["w"]
    assert laid_out.dtype == f"{weight.dtype}_tiles"
    blocks = weight.data.reshape(20, 3, -1)
    tiles = laid_out.data.reshape(2, 3, -1)
    header = 32 * scales
    for row, block in ((0, 0), (5, 2), (19, 1)):
        tile = tiles[row // 16, block]
        halves = tile[:header].reshape(scales, 16, 2)[:, row % 16]
        words = tile[header:].reshape(4, 16, 4)[:, row % 16]
        found = np.concatenate([halves.reshape(-1), words.reshape(-1)])
        assert np.array_equal(found, blocks[row, block])
    missing = tiles[1, :, header:].reshape(3, 4, 16, 4)[:, :, 4:]
    assert not missing.any()


def test_tiles_of_q8_0_are_int8():
    weight = _weight("q8_0")
    laid_out = for_products([weight])["w"]
    assert laid_out.dtype == "int8"
    decoded = FORMATS["int8"].dequantize(laid_out.data, (32, 96))
    assert np.array_equal(decoded[:20], weight.dequantize())
    assert not decoded[20:].any()


def test_tiles_are_shared_while_somebody_has_them():
    weight = _weight("q4_1")
    first = for_products([weight])["w"]
    assert for_products([weight])["w"] is first
    kept = weakref.ref(first)
    del first
    gc.collect()
    assert kept() is None


def test_float_weights_stay_where_they_lie():
    weight = _weight("f16")
    assert for_products([weight])["w"].data is weight.data
    assert readable(_weight("q4_1")).dtype == "q4_1"
