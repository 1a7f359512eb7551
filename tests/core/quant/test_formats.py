"""Every weight format against the gguf package, bit for bit where the definition is exact."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType

from llm_lite.core.quant.registry import FORMATS, GGML_TYPES, GGUF_FORMATS

BLOCK_FORMATS = ("q4_0", "q4_1", "q8_0", "q5_0", "q5_1")
WRITTEN = tuple(name for name, form in FORMATS.items() if form.encoder is not None)
# Those that the package writes too, in blocks of 32 at most.
BOTH_WRITE = tuple(
    name
    for name in GGUF_FORMATS
    if name in WRITTEN and FORMATS[name].block_size <= 32 and name != "iq4_nl"
)


def ggml(name):
    return GgmlType[name.upper()]


def edge_blocks():
    """Rows of 32 that are hard on a quantizer: float32 [n, 32]."""
    rng = np.random.default_rng(5)
    normal = rng.normal(size=32).astype(np.float32)
    outlier = normal.copy()
    outlier[7] = 4000
    half_steps = np.linspace(-7.5, 8, 32, dtype=np.float32)
    one = np.zeros(32, np.float32)
    one[31] = -1
    rows = [0 * normal, -0.0 * normal, normal, outlier, -outlier, half_steps, one]
    rows += [np.full(32, 3.25), np.full(32, -3.25), normal * 1e-3, normal * 1e3]
    return np.array(rows, np.float32)


def random_rows(seed, scale=1.0, columns=96):
    return (np.random.default_rng(seed).normal(size=(37, columns)) * scale).astype(np.float32)


def test_registry_agrees_with_ggml():
    for name in GGUF_FORMATS:
        form = FORMATS[name]
        assert form.ggml_type == ggml(name).value
        assert GGML_TYPES[form.ggml_type] == name
        assert (form.block_size, form.block_bytes) == gguf.GGML_QUANT_SIZES[ggml(name)]
    assert FORMATS["q4_1"].bits_per_weight == 5


def test_type_names_agree_with_ggml():
    theirs = {kind.value: kind.name.lower() for kind in GgmlType}
    assert {number: GGML_TYPES.get(number) for number in theirs} == theirs


@pytest.mark.parametrize("name", BOTH_WRITE)
@pytest.mark.parametrize("values", [random_rows(1), random_rows(2, 300), edge_blocks()])
def test_quantize_is_ggml_bit_for_bit(name, values):
    expected = gguf.quants.quantize(values, ggml(name))
    assert np.array_equal(FORMATS[name].quantize(values), expected.view(np.uint8).reshape(-1))


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_block_layout_by_hand(name):
    """Element i of a block lies where ggml puts it: low nibbles 0..15, high nibbles 16..31."""
    header = np.array([0.5, 10.0] if name.endswith("_1") else [0.5], "<f2").tobytes()
    levels = np.arange(32)
    if name == "q8_0":
        payload, expected = (levels - 16).astype(np.int8).tobytes(), (levels - 16) * 0.5
    else:
        payload = bytes((i % 16) | (15 - i % 16) << 4 for i in range(16))
        q = np.array([*range(16), *range(15, -1, -1)])
        if name.startswith("q5"):
            payload = bytes([0b10000001, 0, 0, 0b10000000]) + payload
            q[[0, 7, 31]] += 16
        zero = 8 if name.startswith("q4") else 16
        expected = q * 0.5 + 10 if name.endswith("_1") else (q - zero) * 0.5
    block = np.frombuffer(header + payload, np.uint8)
    assert FORMATS[name].dequantize(block, (32,)).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q8_0", "iq4_nl", "mxfp4"])
@pytest.mark.parametrize("magnitude", [1e-44, 1e-38, 1e-9, 1e-7, 3e-6])
def test_scales_that_are_denormal_or_vanish(name, magnitude):
    """No warning, nothing non-finite, and never worse than writing zeros."""
    values = random_rows(4, magnitude)
    form = FORMATS[name]
    decoded = form.dequantize(form.quantize(values), values.shape)
    assert np.isfinite(decoded).all()
    assert np.abs(decoded - values).max() <= np.abs(values).max() + 6e-8  # + float16's step


@pytest.mark.parametrize(
    ("name", "steps"), [("q4_0", 16), ("q4_1", 15), ("q8_0", 254), ("q5_0", 32), ("q5_1", 31)]
)
def test_error_is_at_most_a_step(name, steps):
    values, form = random_rows(6), FORMATS[name]
    blocks = values.reshape(-1, 32)
    span = 2 * np.abs(blocks).max(1) if name[-1] == "0" else np.ptp(blocks, axis=1)
    error = np.abs(form.dequantize(form.quantize(values), blocks.shape) - blocks).max(1)
    assert (
        error <= span / steps * (1 if name in ("q4_0", "q5_0") else 0.5) * 1.01 + 2e-3 * span
    ).all()
    assert error.max() > 0


def test_bf16_rounds_to_even_and_keeps_nan():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0xFF800001])
    out = FORMATS["bf16"].quantize(bits.astype(np.uint32).view(np.float32)).view("<u2")
    assert out[:4].tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80]
    decoded = FORMATS["bf16"].dequantize(out.view(np.uint8), (6,))
    assert np.isnan(decoded[4:]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", WRITTEN)
def test_non_finite_is_found_and_only_then(name, bad):
    form = FORMATS[name]
    values = random_rows(8, columns=256 if form.block_size > 32 else 96)
    assert not form.non_finite(form.quantize(values))
    values[20, 50] = bad
    assert form.non_finite(form.quantize(values))


def test_q8_0_rounds_half_away_from_zero_at_every_half():
    halves = np.arange(0.5, 127, dtype=np.float32)
    around = np.concatenate([np.nextafter(halves, np.float32(to)) for to in (0, 200)] + [halves])
    values = np.concatenate([around, -around])
    blocks = np.full((len(values), 32), 127, np.float32)  # d = 1
    blocks[:, 5] = values
    found = FORMATS["q8_0"].dequantize(FORMATS["q8_0"].quantize(blocks), blocks.shape)[:, 5]
    exact = np.abs(values.astype(np.float64))
    assert np.array_equal(found, np.copysign(np.floor(exact + 0.5), values))
