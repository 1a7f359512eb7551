"""Models whose matrices are of every block type: what is loaded, what is said, what they answer."""

import gc
import weakref

import numpy as np
import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import RequestError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.hub.fit import machine
from llm_lite.core.loading import loader
from llm_lite.core.loading.file_check import verify_model
from llm_lite.core.loading.loader import open_model
from llm_lite.core.loading.weights import (
    conversion_note,
    converted,
    described,
    files_behind,
    of_blocks,
)
from llm_lite.core.messages import MODES, Logged, Reconfigure
from llm_lite.core.metrics import modes
from llm_lite.core.metrics.tensors import analyze
from llm_lite.core.quant.registry import GGUF_FORMATS, NATIVE_FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.core.convert.test_slicing import EVEN
from tests.make_gguf import (
    Tensor,
    TinyLlama,
    build_gguf,
    llama_metadata,
    llama_tensors,
    quantized,
    write_tiny_llama,
)
from tests.make_huggingface import write_tiny_gemma3n
from tests.runners import exact, running
from tests.weight_blocks import random_blocks

OTHERS = tuple(name for name in GGUF_FORMATS if name not in NATIVE_FORMATS)
TOKENS = [1, 70, 71, 200, 72, 3]
MATRICES = 15  # of a tiny llama
WIDE = {"hidden_size_per_layer_input": 64}
INT8_LOSS = 0.03  # of the spread of logits


def write_mixed(path, *dtypes, **sizes):
    """A tiny llama whose matrices are of these types in turn."""
    size = TinyLlama(**{"width": 256, "ffn": 256, "dtype": "f32"} | sizes)
    tensors, number = llama_tensors(size), 0
    for name, tensor in tensors.items():
        if len(tensor.shape) == 2:
            values = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)
            tensors[name] = quantized(dtypes[number % len(dtypes)], values)
            number += 1
    path.write_bytes(build_gguf(llama_metadata(size), tensors))
    return path


def decoded(path, place):
    """The same model in float32."""
    tensors = {}
    with open_gguf(path) as file:
        for name, tensor in file.tensors.items():
            values = tensor.dequantize()
            tensors[name] = Tensor("f32", values.shape, values.tobytes())
        metadata = dict(file.metadata)
    size = TinyLlama()
    metadata |= {key: value for key, value in llama_metadata(size).items() if "tokenizer" in key}
    metadata["general.languages"] = ["en"]
    place.write_bytes(build_gguf(metadata, tensors))
    return place


def logits(path, options):
    with running(path, options, every_output=True) as runner:
        return runner.session.logits(TOKENS), runner


@pytest.mark.parametrize("dtype", OTHERS)
def test_a_model_of_any_type_says_what_it_says_in_float32(tmp_path, dtype):
    path = write_tiny_llama(tmp_path / "a.gguf", dtype=dtype)
    floats = decoded(path, tmp_path / "b.gguf")
    expected, _ = logits(floats, exact("numpy"))
    spread = expected.std()
    for backend in ("cpu", "numpy"):
        found, runner = logits(path, exact(backend))
        assert (found - expected).std() < INT8_LOSS * spread
        as_int8, _ = logits(floats, exact(backend, mode="int8"))
        assert np.abs(found - as_int8).max() < 1e-6 * spread
        assert runner.note == f"{MATRICES} tensors of type {dtype} are multiplied as int8"
        assert runner.executor_info.mode == "as-stored"
        assert runner.model_info.weight_bytes == runner.model_info.mode_bytes["as-stored"]
        assert runner.model_info.stored_formats.keys() == {dtype, "f32"}
    found, _ = logits(path, exact("cpu", mode="fp32"))
    assert np.abs(found - expected).max() < 2e-5 * spread


def test_mixed_files_say_each_type_once(tmp_path):
    path = write_mixed(tmp_path / "m.gguf", "iq2_xs", "iq3_s", "q8_0", "nvfp4")
    expected, _ = logits(decoded(path, tmp_path / "b.gguf"), exact("numpy"))
    found, runner = logits(path, exact("cpu"))
    assert (found - expected).std() < INT8_LOSS * expected.std()
    assert runner.note == (
        "4 tensors of type iq2_xs, 4 tensors of type iq3_s and 3 tensors of type nvfp4 are "
        "multiplied as int8"
    )
    assert runner.model_info.block_formats == ("iq2_xs", "iq3_s", "q8_0", "nvfp4")
    assert runner.model_info.format_notes["iq3_s"] == (
        "Blocks of 256 weights in 110 bytes: 3.4375 bits a weight."
    )


def test_native_types_have_nothing_to_say_and_other_modes_do_not_tell_of_them(tmp_path):
    native = write_mixed(tmp_path / "n.gguf", "q4_0", "q8_0", "f16")
    assert logits(native, exact("cpu"))[1].note == ""
    mixed = write_mixed(tmp_path / "m.gguf", "iq2_xs", "q8_0")
    runner = logits(mixed, exact("cpu", mode="int4"))[1]
    assert "iq2_xs" not in runner.note and "rounding them once more" in runner.note
    assert "iq2_xs" in runner.model_info.conversion


def test_one_tensor_is_one(tmp_path):
    size = TinyLlama(width=256, ffn=256, dtype="q8_0")
    tensors = llama_tensors(size)
    values = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    tensors["blk.0.ffn_up.weight"] = quantized("iq3_s", values)
    path = tmp_path / "one.gguf"
    path.write_bytes(build_gguf(llama_metadata(size), tensors))
    with running(path, exact("cpu")) as runner:
        assert runner.note == "1 tensor of type iq3_s is multiplied as int8"


def test_a_vector_of_blocks_is_float32(tmp_path):
    size = TinyLlama(width=256, ffn=256, dtype="q8_0")
    tensors = llama_tensors(size)
    tensors["output_norm.weight"] = quantized("iq3_s", np.linspace(1, 2, 256, dtype=np.float32))
    path = tmp_path / "v.gguf"
    path.write_bytes(build_gguf(llama_metadata(size), tensors))
    with running(path, exact("cpu")) as runner:
        assert runner.note == "1 tensor of type iq3_s is multiplied as f32"


def test_the_log_says_once_what_is_multiplied_as_int8(tmp_path, client):
    path = write_mixed(tmp_path / "m.gguf", "iq2_xs", "q8_0")
    note = "8 tensors of type iq2_xs are multiplied as int8"
    client.load(path, exact("cpu", mode="int4"))
    assert note not in [event.text for event in client.of(Logged)]
    for options in (exact("cpu"), exact("numpy"), exact("cpu", mode="int8"), exact("cpu")):
        client.send(Reconfigure(options))
        assert client.ask()[0].stop_reason in ("end", "length")
    said = [event for event in client.of(Logged) if event.text == note]
    assert [event.level for event in said] == ["info"]


def opened(path):
    warnings = []
    file = loader.open_model(str(path), lambda *_: None, warnings.append)
    assert warnings == []
    return file


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("mode", ["int4", "fp16"])
def test_variants_are_made_of_every_type(tmp_path, dtype, mode):
    path = write_tiny_llama(tmp_path / "a.gguf", dtype=dtype)
    file = opened(path)
    report = quantize(file, tmp_path / "v", mode)
    file.close()
    stored = {row.format for row in report.tensors if len(row.shape) > 1}
    assert {row.stored for row in report.tensors if len(row.shape) > 1} == {dtype}
    assert stored <= ({"f16"} if mode == "fp16" else {"int4", "int8"})
    expected, _ = logits(path, exact("cpu", mode=mode))
    found, runner = logits(tmp_path / "v", exact("cpu"))
    assert np.allclose(found, expected, atol=1e-5)
    assert runner.note == ""


@pytest.mark.parametrize("dtype", OTHERS)
def test_files_of_every_type_are_verified(tmp_path, dtype):
    verdict = verify_model(str(write_tiny_llama(tmp_path / "a.gguf", dtype=dtype)))
    assert verdict.sound
    assert verdict.tensors == MATRICES + 5


def test_the_table_of_tensors_says_what_int8_loses(tmp_path):
    file = opened(write_mixed(tmp_path / "m.gguf", "iq2_xs", "q8_0"))
    rows = analyze(file.file.tensors, "as-stored", lambda *_: None)
    file.close()
    lost = {row.format for row in rows if row.snr_db < 100}
    assert lost == {"int8"}
    assert all(30 < row.snr_db < 60 for row in rows if row.format == "int8")


def test_a_mode_that_must_be_made_is_measured_only_where_it_fits(tmp_path, monkeypatch):
    path = write_mixed(tmp_path / "m.gguf", "iq2_xs", "q8_0")
    file = opened(path)
    monkeypatch.setattr(modes, "PREFERENCE", ("as-stored", "int4"))
    monkeypatch.setattr(machine, "available_bytes", lambda: 1 << 20)
    with pytest.raises(RequestError, match=r"no weight mode .* fits into the memory"):
        modes.measure_modes(file, exact("cpu"), None, lambda *_: None)
    monkeypatch.setattr(machine, "available_bytes", lambda: 1 << 33)
    rows = modes.measure_modes(file, exact("cpu"), None, lambda *_: None)
    assert [row.mode for row in rows] == ["as-stored", "int4"]
    file.close()


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    """A tiny Gemma 3n, in float32, whose table's rows fill blocks."""
    return write_tiny_gemma3n(tmp_path_factory.mktemp("gemma") / "source", **EVEN | WIDE)


@pytest.mark.parametrize("mode", ["as-stored", "int8"])
def test_tables_that_stay_on_disk_become_q8_0_where_kernels_do_not_read_them(
    gemma, mode, monkeypatch
):
    file = opened(gemma)
    (name,) = file.model.on_disk
    table = file.file.tensors[name]
    blocks = TensorData(name, "nvfp4", table.shape, random_blocks("nvfp4", table.shape))
    changed = dict(file.file.tensors) | {name: blocks}
    monkeypatch.setattr(type(file.file), "tensors", changed)
    weights, _ = converted(file, mode, lambda *_: None)
    assert weights[name].dtype == "q8_0"
    rows = np.array([0, 5, 3])
    error = np.abs(weights[name].rows(rows) - blocks.rows(rows)).max()
    assert error < 0.01 * np.abs(blocks.rows(rows)).max()
    assert conversion_note(file) == "1 tensor of type nvfp4 is multiplied as q8_0"


def test_words_on_formats():
    assert of_blocks(["f32", "q4_0", "bf16", "u8"]) == ("q4_0",)
    assert described(["f16", "q4_0", "u8"]) == {
        "f16": "Single weights of 16 bits.",
        "q4_0": "Blocks of 32 weights in 18 bytes: 4.5 bits a weight.",
    }


def test_a_device_is_given_one_weight_after_the_other(tiny_llama):
    """Each is made when it is asked for, the same as if all were made at once, and not kept."""
    file = open_model(str(tiny_llama), lambda *_: None, print)
    try:
        for mode in MODES:
            at_once, _ = converted(file, mode, lambda *_: None)
            weights, _ = converted(file, mode, lambda *_: None, at_once=False)
            assert list(weights) == list(at_once) and len(weights) == len(at_once)
            for name, expected in at_once.items():
                found = weights[name]
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                assert found.data.tobytes() == expected.data.tobytes()
            if mode == "int4":
                name = "blk.0.ffn_up.weight"
                gone = weakref.ref(weights[name])
                gc.collect()
                assert gone() is None
            assert [each.path for each in files_behind(file, weights).files] == [tiny_llama]
    finally:
        file.close()
