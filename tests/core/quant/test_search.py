"""The search for blocks: C++ gives the definition's bytes, and it is worth its time."""

from __future__ import annotations

import numpy as np
import pytest
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.processor import available_isas
from llm_lite.core.quant import search
from llm_lite.core.quant.blocks.legacy import Q4_0, Q8_0
from llm_lite.core.quant.blocks.tiles import INT4, INT8

F32 = NDArray[np.float32]
DEFINITIONS = {"int4": search.quantize_int4, "int8": search.quantize_int8}
FORMATS = {"int4": INT4, "int8": INT8}


def weights_of(name: str) -> F32:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((37, 96)).astype(np.float32)
    match name:
        case "normal":
            return x * np.float32(0.02)
        case "zero":
            return x * 0
        case "one outlier":
            x[:, 5] = 300
            return x
        case "one sided":
            return np.abs(x) + np.float32(3)
        case "denormal scales":
            return x * np.float32(3e-7)
        case "below the smallest scale":
            return x * np.float32(1e-9)
        case "maximal":
            return x * np.float32(60000 * 4)
        case "too large":
            return x.clip(-1, 1) * np.float32(3e38)
        case "constant":
            return np.full_like(x, 0.37)
        case "few values":
            return np.round(x).astype(np.float32) / 8
    raise ValueError(name)


CASES = (
    "normal",
    "zero",
    "one outlier",
    "one sided",
    "denormal scales",
    "below the smallest scale",
    "maximal",
    "too large",
    "constant",
    "few values",
)


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_build_gives_the_bytes_of_the_definition(name: str, case: str) -> None:
    values = weights_of(case)
    importance = np.random.default_rng(1).uniform(0, 3, 96).astype(np.float32)
    expected = DEFINITIONS[name](values, importance)
    for isa in available_isas():
        found = _cpp.quantize(name, values, importance, isa, 2)
        assert np.array_equal(found, expected), isa


@pytest.mark.parametrize("name", DEFINITIONS)
def test_values_that_are_not_finite_leave_their_mark_in_both(name: str) -> None:
    values = weights_of("normal")
    values[3, 40], values[20, 70] = np.nan, -np.inf
    ones = np.ones(96, np.float32)
    expected = DEFINITIONS[name](values, ones)
    assert FORMATS[name].non_finite(expected)
    assert np.array_equal(_cpp.quantize(name, values, ones, available_isas()[-1], 1), expected)


@pytest.mark.parametrize(("name", "peer", "most"), [("int4", Q4_0, 0.72), ("int8", Q8_0, 0.97)])
def test_the_search_loses_less_than_plain_blocks_of_as_many_bits(
    name: str, peer: type[Q4_0 | Q8_0], most: float
) -> None:
    values = np.random.default_rng(3).standard_normal((128, 512)).astype(np.float32)
    found = DEFINITIONS[name](values, np.ones(512, np.float32))

    def error(decoded: F32) -> float:
        return float(np.square(decoded - values).sum())

    plain = peer.dequantize(peer.quantize(values), values.shape)
    assert error(FORMATS[name].dequantize(found, values.shape)) < most * error(plain)


def test_important_columns_come_out_closer() -> None:
    values = np.random.default_rng(4).standard_normal((64, 32)).astype(np.float32)
    importance = np.ones(32, np.float32)
    importance[9] = 1000
    even = INT4.dequantize(search.quantize_int4(values, np.ones(32, np.float32)), values.shape)
    wise = INT4.dequantize(search.quantize_int4(values, importance), values.shape)
    off = [np.square(found - values)[:, 9].sum() for found in (even, wise)]
    assert off[1] < 0.2 * off[0]


def test_wrong_shapes_are_refused() -> None:
    values, isa = np.zeros((4, 48), np.float32), available_isas()[0]
    with pytest.raises(ValueError, match="multiple of 32"):
        _cpp.quantize("int4", values, np.ones(48, np.float32), isa, 1)
