import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.quant import modes, quantizer
from llm_lite.core.quant.blocks.codebooks import IQ3_S
from llm_lite.core.quant.registry import FORMATS, NATIVE_FORMATS
from llm_lite.core.quant.second_rounding import again_error
from llm_lite.core.quant.tensor import TensorData
from tests.weight_blocks import random_blocks

OTHERS = sorted(set(FORMATS) - set(NATIVE_FORMATS))


def tensor(dtype, shape, seed=0, scale=1.0):
    if FORMATS[dtype].encoder is None:
        data = random_blocks(dtype, shape, seed, scale)
    else:
        values = (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)
        data = FORMATS[dtype].quantize(values)
    data.flags.writeable = False
    return TensorData("t", dtype, shape, data)


def matrix(dtype, rows, blocks):
    """Of so many blocks of 32 or more."""
    return tensor(dtype, (rows, blocks * max(32, FORMATS[dtype].block_size)))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("mode", "expected"), [("fp32", "f32"), ("fp16", "f16"), ("int8", "int8"), ("int4", "int4")]
)
def test_matrix_becomes_the_mode(dtype, mode, expected):
    source = matrix(dtype, 7, 3)
    result = modes.convert(source, mode)
    wanted = quantizer.encode(expected, source.dequantize())
    assert (result.dtype, result.shape, result.name) == (expected, source.shape, "t")
    assert np.array_equal(result.data, wanted) or (dtype == expected and result is source)
    assert not result.data.flags.writeable


@pytest.mark.parametrize("dtype", NATIVE_FORMATS)
def test_as_stored_and_same_format_are_the_tensor_itself(dtype):
    source = matrix(dtype, 3, 2)
    assert modes.convert(source, "as-stored") is source
    same = {"f32": "fp32", "f16": "fp16", "int8": "int8", "int4": "int4"}
    if dtype in same:
        assert modes.convert(source, same[dtype]) is source


@pytest.mark.parametrize("dtype", OTHERS)
def test_formats_that_kernels_do_not_read_are_int8_as_stored(dtype):
    source = matrix(dtype, 19, 2)
    result = modes.convert(source, "as-stored")
    assert (result.dtype, result.shape) == ("int8", source.shape)
    assert np.array_equal(result.data, modes.convert(source, "int8").data)
    signal, error = source.dequantize(), result.dequantize() - source.dequantize()
    assert np.square(error).sum() < 1e-4 * np.square(signal).sum()
    assert modes.mode_bytes([source], "as-stored") == result.nbytes
    assert modes.convert(source, "fp32").nbytes == 4 * signal.size


@pytest.mark.parametrize("dtype", OTHERS)
def test_tables_that_kernels_do_not_read_are_q8_0_in_rows(dtype):
    source = matrix(dtype, 19, 2)
    result = modes.convert_table(source)
    assert (result.dtype, result.shape) == ("q8_0", source.shape)
    assert np.array_equal(result.data, FORMATS["q8_0"].quantize(source.dequantize()))


@pytest.mark.parametrize("dtype", NATIVE_FORMATS)
def test_other_tables_are_themselves(dtype):
    source = matrix(dtype, 19, 2)
    assert modes.convert_table(source) is source


def test_room_is_made_for_matrices_and_tables_together():
    tensors = [matrix(dtype, 19, 2) for dtype in FORMATS]
    room = modes.common_room(tensors, "as-stored", tables=tensors)
    made = [modes.convert(t, "as-stored", room) for t in tensors]
    made += [modes.convert_table(t, room) for t in tensors]
    new = [t for t in made if all(t is not old for old in tensors)]
    ends = [(t.data.ctypes.data, t.data.ctypes.data + t.nbytes) for t in new]
    assert len(new) == 2 * len(OTHERS)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))  # of one piece of memory


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "q4_0", "q6_k", "iq2_s"])
def test_vectors_are_float32_in_every_mode(mode, dtype):
    source = tensor(dtype, (512,))
    result = modes.convert(source, mode)
    assert result.dtype == "f32"
    assert np.array_equal(result.dequantize(), source.dequantize())


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_rows_that_do_not_fill_blocks_stay_float16(mode):
    assert modes.convert(tensor("f32", (5, 33)), mode).dtype == "f16"


@pytest.mark.parametrize("mode", ["fp32", "int4"])
def test_pieces_make_the_same_whole(mode, monkeypatch):
    source = tensor("q4_1", (39, 160))
    whole = modes.convert(source, mode).data
    monkeypatch.setattr(modes, "_CHUNK_VALUES", 64)
    assert np.array_equal(modes.convert(source, mode).data, whole)


def test_overflow_is_an_error_and_a_stored_infinity_is_kept():
    with pytest.raises(UnsupportedError, match=r"'t' reaches 1e\+30.*f16"):
        modes.convert(TensorData("t", "f32", (1, 2), np.array([1, 1e30], "<f4").view("u1")), "fp16")
    infinite = TensorData("t", "f32", (1, 2), np.array([1, np.inf], "<f4").view("u1"))
    assert np.isinf(modes.convert(infinite, "fp16").dequantize()[0, 1])


def test_overflow_of_what_cannot_stay_as_it_is_names_the_way_out():
    huge = tensor("iq3_s", (1, 256)).data.copy()
    blocks = huge.view(IQ3_S.BLOCK)
    blocks["d"], blocks["scales"] = 6e4, 255
    with pytest.raises(UnsupportedError, match=r"beyond what int8 can hold; choose mode fp32$"):
        modes.convert(TensorData("t", "iq3_s", (1, 256), huge), "as-stored")


def test_unknown_mode():
    with pytest.raises(RequestError, match=r"'int2'.*as-stored, fp32"):
        modes.convert(tensor("f32", (2, 2)), "int2")


def model(values, others, columns=64):
    """A model's matrices by their rows."""
    named = {"blk.0.attn_v.weight": values, "blk.1.attn_v.weight": values, "output.weight": others}
    for name, rows in named.items():
        yield TensorData(name, "f32", (rows, columns), tensor("f32", (rows, columns)).data)


def test_the_matrices_of_values_keep_int8_in_mode_int4_where_they_are_few():
    names = {"blk.0.attn_v.weight", "blk.1.attn_v.weight"}
    assert modes.promoted(model(16, 1300), "int4") == names  # 4 bits of 2.4 % of the weights
    assert modes.promoted(model(16, 1200), "int4") == frozenset()
    assert modes.promoted(model(16, 1300, columns=33), "int4") == frozenset()  # stay float16
    assert all(modes.promoted(model(16, 1300), mode) == frozenset() for mode in modes.MODES[:-1])


def test_raised_matrices_are_converted_and_counted_so():
    tensors = list(model(16, 1300))
    found = modes.promoted(tensors, "int4")
    room = modes.common_room(tensors, "int4", found)
    converted = [modes.convert(t, "int4", room, found) for t in tensors]
    assert [t.dtype for t in converted] == ["int8", "int8", "int4"]
    assert modes.mode_bytes(tensors, "int4") == sum(t.nbytes for t in converted)
    bits = 8 * sum(t.nbytes for t in converted[:2]) + 4.5 * 1300 * 64
    assert 4.5 < bits / (1332 * 64) <= 4.6
    again = [
        modes.convert(t, "int4", promoted=modes.promoted(converted, "int4")) for t in converted
    ]
    assert all(a is b for a, b in zip(again, converted, strict=True))


def mapping_of(address):
    """The head of the mapping in /proc/self/smaps that an address is in, and its flags."""
    head = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ", line):
            begin, end = (int(edge, 16) for edge in found.groups()[:2])
            head = found[3] if begin <= address < end else ""
        elif head and line.startswith("VmFlags:"):
            return head, line.split()[1:]
    raise AssertionError("no mapping has this address")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_converted_weights_may_lie_in_large_pages():
    room = modes.room_for([4 << 20])
    rights, flags = mapping_of(room(4 << 20).ctypes.data)
    assert rights == "rw-p"  # shared memory has them only where the system is set up for it
    if Path("/sys/kernel/mm/transparent_hugepage").exists():
        assert "hg" in flags


@pytest.mark.parametrize("mode", ["int8", "int4", "fp16"])
@pytest.mark.parametrize(("scale", "taken"), [(1e-2, True), (1e-5, True), (1e-7, False)])
def test_weights_that_would_vanish_are_refused(mode, scale, taken):
    values = np.random.default_rng(1).normal(0, scale, (32, 64)).astype("<f4")
    source = TensorData("t", "f32", (32, 64), values.reshape(-1).view("u1"))
    if taken:
        made = modes.convert(source, mode).dequantize()
        assert np.square(made - values).sum() < 0.06 * np.square(values).sum()
        return
    if mode == "fp16":  # which holds a tenth of such values exactly enough
        assert np.square(modes.convert(source, mode).dequantize() - values).sum() > 0
        return
    with pytest.raises(UnsupportedError, match=r"'t' has no value beyond .*e-07: int. cannot hold"):
        modes.convert(source, mode)


def test_small_rows_beside_others_are_no_reason_to_refuse():
    values = np.random.default_rng(1).normal(0, 1e-2, (64, 64)).astype("<f4")
    values[32:] *= 1e-8  # tokens that were never trained
    source = TensorData("t", "f32", values.shape, values.reshape(-1).view("u1"))
    made = modes.convert(source, "int8").dequantize()
    assert np.abs(made[:32] - values[:32]).max() < 1e-3


@pytest.mark.parametrize(
    ("stored", "mode", "share"),
    [
        ("q4_0", "int4", 1.0),
        ("q5_0", "int4", 1.0),
        ("q8_0", "int4", 0.0),
        ("q4_0", "int8", 0.0),
        ("q4_0", "as-stored", 0.0),
        ("f32", "int4", 0.0),
    ],
)
def test_which_modes_round_few_bits_once_more(stored, mode, share):
    assert modes.rounded_again([tensor(stored, (32, 64))], mode) == share


def test_what_a_second_rounding_loses_is_measured():
    """By rows in the middle of some matrices, about as by all of all; 0 where none is rounded."""
    random = np.random.default_rng(1)
    tensors, signal, noise = [], 0.0, 0.0
    for number in range(20):
        values = random.normal(0, 0.02, (96, 256)).astype("<f4")
        plain = TensorData(f"t{number}", "f32", values.shape, values.reshape(-1).view("u1"))
        stored = modes._in_format(plain, "q4_0", modes._own_room)
        once = stored.dequantize()
        twice = modes.convert(stored, "int4").dequantize()
        signal, noise = signal + np.square(once).sum(), noise + np.square(once - twice).sum()
        tensors.append(stored)
    found = again_error(tensors, "int4")
    assert 0.01 < found < 0.2 and found == pytest.approx((noise / signal) ** 0.5, rel=0.05)
    assert again_error(tensors, "int8") == again_error([], "int4") == 0
    broken = tensors[0].data.copy()
    broken[len(broken) // 2 :] = 0xFF  # scales that are no numbers
    tensors[0] = TensorData("t0", "q4_0", tensors[0].shape, broken)
    assert again_error(tensors, "int4") == 0
    assert f"changes them by {found:.1%} (root mean square" in modes.again_sentence(
        "int4", 0.8, found
    )
