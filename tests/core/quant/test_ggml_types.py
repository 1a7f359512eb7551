"""Every block type that GGUF files may hold: its values, bit for bit those of the gguf package."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.quant.blocks.codebooks import codebook, sign_vectors
from llm_lite.core.quant.registry import FORMATS, GGUF_FORMATS
from llm_lite.core.quant.tensor import TensorData, find_non_finite
from tests.weight_blocks import BLOCK_FORMATS, damaged, random_blocks, scale_fields

WRITTEN = tuple(name for name in GGUF_FORMATS if FORMATS[name].encoder is not None)
OURS = ("iq4_nl",)  # which the package reads only
DEFINED = tuple(name for name in GGUF_FORMATS if name != "q1_0")  # which it only names
BOTH_WRITE = tuple(name for name in WRITTEN if name not in OURS)


def ggml(name, data, shape):
    if name == "q1_0":
        blocks = data.reshape(-1, 18)
        signs = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(bool)
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return np.where(signs, d, -d).reshape(shape)
    with np.errstate(all="ignore"):
        rows = data.reshape(int(np.prod(shape[:-1])), -1)
        return gguf.quants.dequantize(rows, GgmlType[name.upper()]).reshape(shape)


def same_bits(ours, theirs):
    equal = ours.view(np.uint32) == theirs.view(np.uint32)
    return bool((equal | (np.isnan(ours) & np.isnan(theirs))).all())


@pytest.mark.parametrize("name", GGUF_FORMATS)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (1, 13), (19, 1), (7, 13), (67, 5)])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_any_bytes_are_the_values_of_ggml(name, rows, blocks):
    form = FORMATS[name]
    shape = (rows, blocks * form.block_size)
    data = np.random.default_rng(rows).integers(0, 256, form.nbytes(shape), np.uint8)
    found = form.dequantize(data, shape)
    assert (found.dtype, found.shape) == (np.float32, shape)
    assert same_bits(found, ggml(name, data, shape))


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_blocks_of_every_code_are_the_values_of_ggml(name):
    shape = (33, 3 * FORMATS[name].block_size)
    data = random_blocks(name, shape, seed=1, deviation=0.05)
    found = FORMATS[name].dequantize(data, shape)
    assert same_bits(found, ggml(name, data, shape))
    assert 0.03 < found.std() < 0.08


@pytest.mark.parametrize("name", BOTH_WRITE)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_weights_are_written_as_ggml_does(name, scale):
    values = (np.random.default_rng(2).normal(size=(11, 768)) * scale).astype(np.float32)
    values[3, 256:512] = 0
    values[4, 7] *= 100
    expected = gguf.quants.quantize(values, GgmlType[name.upper()])
    assert np.array_equal(FORMATS[name].quantize(values), expected.view(np.uint8).reshape(-1))


@pytest.mark.parametrize("name", sorted(set(GGUF_FORMATS) - set(WRITTEN)))
def test_other_formats_are_only_read(name):
    with pytest.raises(UnsupportedError, match=f"weights cannot be written as {name}, only read"):
        FORMATS[name].quantize(np.zeros((1, 256), np.float32))


def test_iq4_nl_takes_the_nearest_of_its_numbers():
    values = np.random.default_rng(3).normal(size=(64, 32)).astype(np.float32)
    form = FORMATS["iq4_nl"]
    data = form.quantize(values)
    numbers = np.array(gguf.quants.IQ4_NL.kvalues, np.float32)
    d = data.reshape(64, 18)[:, :2].copy().view(np.float16).astype(np.float32)
    nearest = np.abs(values[:, :, None] - d[:, :, None] * numbers).min(axis=2)
    error = np.abs(form.dequantize(data, values.shape) - values)
    assert np.allclose(error, nearest, atol=1e-6)
    largest = np.abs(values).argmax(axis=1)
    assert (error[np.arange(64), largest] < 1e-3 * np.abs(values).max()).all()


@pytest.mark.parametrize("name", BLOCK_FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scales_that_are_not_finite_are_found_and_only_then(name, bad):
    shape = (5, 3 * FORMATS[name].block_size)
    sound = random_blocks(name, shape, seed=4)
    assert not FORMATS[name].non_finite(sound)
    for field in scale_fields(name):
        for block in (0, 7, 14):
            data = sound.copy()
            damaged(name, data, block, bad, field)
            assert FORMATS[name].non_finite(data), (field, block)
            assert find_non_finite(TensorData("t", name, shape, data))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", GGUF_FORMATS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_values_are_finite_where_scales_are(name, data):
    form = FORMATS[name]
    count = data.draw(st.integers(1, 4))
    raw = data.draw(st.binary(min_size=form.nbytes((count, form.block_size)), max_size=1 << 11))
    found = np.frombuffer(raw[: form.nbytes((count, form.block_size))], np.uint8)
    finite = bool(np.isfinite(form.dequantize(found, (count, form.block_size))).all())
    if name == "mxfp4" and 255 in found[::17]:  # whose codes may be 0
        assert form.non_finite(found)
    else:
        assert form.non_finite(found) != finite


def test_every_byte_of_nvfp4_is_a_finite_value():
    data = np.tile(np.arange(256, dtype=np.uint8)[:, None], 36).reshape(-1)
    assert np.isfinite(FORMATS["nvfp4"].dequantize(data, (256, 64))).all()
    assert not FORMATS["nvfp4"].non_finite(data)


@pytest.mark.parametrize(
    ("exponent", "code", "bad"),
    [(252, 7, False), (253, 5, False), (253, 6, True), (254, 3, False), (254, 15, True),
     (255, 0, True)],
)  # fmt: skip
def test_large_scales_of_mxfp4(exponent, code, bad):
    data = np.full(34, code * 17, np.uint8)
    data[::17] = 100, exponent
    assert FORMATS["mxfp4"].non_finite(data) == bad
    assert np.isfinite(FORMATS["mxfp4"].dequantize(data, (1, 64))).all() != (bad and code > 0)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_single_rows(name):
    shape = (23, 2 * FORMATS[name].block_size)
    tensor = TensorData("t", name, shape, random_blocks(name, shape, seed=5))
    rows = np.array([22, 0, 7, 7])
    assert np.array_equal(tensor.rows(rows), tensor.dequantize()[rows])


@pytest.mark.parametrize("name", ["iq1_s", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"])
def test_codebooks_are_those_of_ggml(name):
    theirs = getattr(gguf.quants, name.upper())
    theirs.init_grid()
    assert np.array_equal(codebook(name), theirs.grid.reshape(theirs.grid_shape))


def test_sign_vectors():
    seven, eight = sign_vectors(7), sign_vectors(8)
    assert (seven.shape, eight.shape) == ((128, 8), (256, 8))
    assert np.array_equal(eight[0b10010], [1, -1, 1, 1, -1, 1, 1, 1])
    assert (seven.astype(int).prod(axis=1) == 1).all()
    bits = np.packbits(seven < 0, axis=1, bitorder="little")[:, 0]
    assert bits.tobytes() == gguf.quants.IQ2_XXS.ksigns
