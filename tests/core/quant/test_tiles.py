"""Our own formats: where each bit lies, and what a decoded value is, by hand."""

import numpy as np
import pytest

from llm_lite.core.quant.blocks.tiles import INT4, INT8
from llm_lite.core.quant.registry import FORMATS

SHAPES = [(1, 32), (13, 96), (16, 64), (127, 32)]


def rows(seed, shape, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def int4_at(data, row, column, columns):
    """One value of the format, as its description says."""
    tile = data[288 * (row // 16 * (columns // 32) + column // 32) :][:288]
    header = int(tile[2 * (row % 16)]) | int(tile[2 * (row % 16) + 1]) << 8
    half = np.array([(header & 0xFFC0) >> 1], np.uint16).view(np.float16)[0]
    place = column % 32
    byte = tile[32 + 64 * (place % 16 // 4) + 4 * (row % 16) + place % 4]
    level = byte >> 4 if place >= 16 else byte & 15
    return float(half) * (int(level) - (header & 63) / 4)


def int8_at(data, row, column, columns):
    tile = data[544 * (row // 16 * (columns // 32) + column // 32) :][:544]
    half = tile[2 * (row % 16) :][:2].copy().view(np.float16)[0]
    place = column % 32
    level = tile[32 + 64 * (place // 4) + 4 * (row % 16) + place % 4].view(np.int8)
    return float(half) * int(level)


@pytest.mark.parametrize(("name", "value_at"), [("int4", int4_at), ("int8", int8_at)])
@pytest.mark.parametrize("shape", SHAPES)
def test_layout_of_any_bytes(name, value_at, shape):
    form = FORMATS[name]
    data = np.random.default_rng(1).integers(0, 256, form.nbytes(shape), np.uint8)
    headers = data.view((INT4 if name == "int4" else INT8).TILE)["headers"]
    headers &= 0xBFFF if name == "int8" else 0x7FFF  # finite
    decoded = form.dequantize(data, shape)
    for row, column in np.ndindex(*shape):
        assert decoded[row, column] == np.float32(value_at(data, row, column, shape[1]))


@pytest.mark.parametrize("name", ["int4", "int8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_error_is_below_a_step(name, shape):
    values, form = rows(2, shape), FORMATS[name]
    decoded = form.dequantize(form.quantize(values), shape)
    blocks, error = values.reshape(-1, 32), np.abs(decoded - values).reshape(-1, 32).max(1)
    span = np.maximum(blocks.max(1), 0) - np.minimum(blocks.min(1), 0)
    step = span / 15 if name == "int4" else np.abs(blocks).max(1) / 127
    assert (error <= step).all()
    assert error.max() > 0


@pytest.mark.parametrize(("name", "bits"), [("int4", 4.5), ("int8", 8.5)])
def test_bits_and_padding(name, bits):
    form = FORMATS[name]
    assert form.bits_per_weight == bits
    assert form.nbytes((16, 64)) * 8 == bits * 16 * 64
    assert form.nbytes((17, 64)) == form.nbytes((32, 64)) == form.quantize(rows(3, (17, 64))).size


@pytest.mark.parametrize("d", [0.0, 6e-8, 1e-6, 6.1e-5, 0.01, 1.0, 60000.0])
def test_int4_step_keeps_six_bits(d):
    """Of a normal number; of a denormal one as many as it has."""
    decoded = INT4.decode_step(INT4.encode_step(np.array([d], np.float32)))[0]
    assert abs(decoded - d) <= max(d / 64, 2.0**-20)


@pytest.mark.parametrize("name", ["int4", "int8"])
@pytest.mark.parametrize("magnitude", [0, 1e-44, 1e-9, 1e-6, 1e4])
def test_extremes_are_finite_and_no_worse_than_zeros(name, magnitude):
    values, form = rows(4, (20, 64), magnitude), FORMATS[name]
    decoded = form.dequantize(form.quantize(values), values.shape)
    assert np.isfinite(decoded).all()
    assert np.abs(decoded - values).max() <= np.abs(values).max() + 1e-6


@pytest.mark.parametrize("name", ["int4", "int8"])
@pytest.mark.parametrize("value", [3.25, -3.25])
def test_block_of_one_value(name, value):
    values, form = np.full((1, 32), value, np.float32), FORMATS[name]
    decoded = form.dequantize(form.quantize(values), values.shape)
    assert np.abs(decoded / value - 1).max() < 0.04


@pytest.mark.parametrize("name", ["int4", "int8"])
def test_rows_beyond_the_last_are_zero(name):
    form = FORMATS[name]
    data = form.quantize(rows(5, (13, 64)))
    assert not form.dequantize(data, (16, 64))[13:].any()
