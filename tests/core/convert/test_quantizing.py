"""From a model to a variant of it: what comes back, what it reports, what it refuses."""

import json
import math

import numpy as np
import pytest

from llm_lite.core.convert import quantizing
from llm_lite.core.convert.calibration_run import calibrate
from llm_lite.core.convert.quantizing import lossy_source, quantize
from llm_lite.core.errors import (
    CancelledError,
    FileError,
    LlmLiteError,
    RequestError,
    UnsupportedError,
)
from llm_lite.core.files import mapping
from llm_lite.core.loading import loader
from llm_lite.core.quant.modes import convert
from llm_lite.core.quant.quantizer import encode
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import asdict
from tests.make_gguf import Tensor, TinyLlama, build_gguf, llama_metadata, llama_tensors
from tests.make_gguf import write_tiny_llama as write_tiny_gguf
from tests.make_huggingface import write_tiny_gemma3n, write_tiny_llama
from tests.runners import BACKENDS, exact, running

MODES = ("fp32", "fp16", "int8", "int4")
TOKENS = [5, 250, 3, 77, 120, 9, 299, 42]
TEXT = "Whoever wants to see the sea walks down the road to the harbour and waits there. " * 6


def opened(path):
    return loader.open_model(str(path), lambda *_: None, print, check_weights=False)


def make(source, target, mode, **options):
    model = opened(source)
    try:
        return quantize(model, target, mode, **options)
    finally:
        model.close()


@pytest.fixture(scope="module")
def sources(tmp_path_factory, tiny_llama):
    folder = tmp_path_factory.mktemp("sources")
    size = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_attention_heads": 4}
    return {
        "gguf": tiny_llama,
        "huggingface": write_tiny_llama(folder / "hf", dtype="BF16", shards=2, **size),
        "gemma3n": write_tiny_gemma3n(folder / "gemma"),
    }


def logits(path, mode="as-stored", backend="cpu", device=None):
    options = exact(backend, mode=mode)
    with running(path, options, device=device, every_output=True) as runner:
        return runner.session.logits(TOKENS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["gguf", "huggingface", "gemma3n"])
def test_a_variant_answers_as_its_source_in_that_mode(sources, kind, mode, tmp_path):
    make(sources[kind], tmp_path / "v", mode)
    expected = logits(sources[kind], mode)
    # A table of which rows are read on the disk is left as it is when a mode is only asked for.
    close = 0.01 if kind == "gemma3n" and mode != "fp32" else 0
    assert np.abs(logits(tmp_path / "v") - expected).max() <= close
    assert np.abs(logits(tmp_path / "v", mode) - expected).max() <= close
    found = opened(tmp_path / "v").file.tensors
    for name, tensor in opened(sources[kind]).file.tensors.items():
        wanted = convert(tensor, mode)
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        assert np.array_equal(found[name].data, wanted.data)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_executor_takes_it(sources, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    make(sources["gguf"], tmp_path / "v", "int4")
    found = logits(tmp_path / "v", backend=backend, device=device)
    assert np.abs(found - logits(tmp_path / "v")).max() < 2e-3


def assert_mapped(used, tensors):
    """Matrices are the file's own bytes; of vectors there is a copy, so that the pages of the
    matrices around them are not brought in."""
    for name, weight in used.items():
        data, stored = weight.data, tensors[name].data
        is_vector = len(tensors[name].shape) == 1
        assert (data.ctypes.data == stored.ctypes.data) != is_vector, name
        assert np.array_equal(data, stored), name


@pytest.mark.parametrize("mode", ["int4", "as-stored"])
def test_the_kernels_read_the_mapped_file_itself(sources, mode, tmp_path):
    make(sources["gguf"], tmp_path / "v", "int4")
    with running(tmp_path / "v", exact("cpu", mode=mode)) as runner:
        tensors = runner.model_file.file.tensors
        used = runner.executor._weights
        assert used.keys() == tensors.keys()
        assert_mapped(used, tensors)


def test_tokenizer_template_and_name_are_the_sources(sources, tmp_path):
    for kind, source in sources.items():
        make(source, tmp_path / kind, "int8")
        old, new = opened(source), opened(tmp_path / kind)
        assert new.tokenizer.identity == old.tokenizer.identity
        assert new.tokenizer.encode(TEXT) == old.tokenizer.encode(TEXT)
        messages = [{"role": "user", "content": "Hello"}]
        assert new.template.render(messages) == old.template.render(messages)
        assert new.model.shape == old.model.shape
        metadata = {k: v for k, v in old.file.metadata.items() if not hasattr(v, "__len__")}
        assert metadata.items() <= new.file.metadata.items()


def test_a_variant_is_a_source_too(sources, tmp_path):
    make(sources["huggingface"], tmp_path / "exact", "fp32")
    make(tmp_path / "exact", tmp_path / "again", "int4")
    make(sources["huggingface"], tmp_path / "once", "int4")
    assert np.array_equal(logits(tmp_path / "again"), logits(tmp_path / "once"))


def test_the_report_says_what_every_tensor_lost(sources, tmp_path):
    report = make(sources["huggingface"], tmp_path / "v", "int4")
    model = opened(sources["huggingface"])
    assert [row.name for row in report.tensors] == list(model.file.tensors)
    for row in report.tensors:
        tensor = model.file.tensors[row.name]
        values = tensor.dequantize().astype(np.float64)
        found = convert(tensor, "int4")
        assert (row.shape, row.stored, row.format) == (tensor.shape, tensor.dtype, found.dtype)
        off = np.square(found.dequantize() - values).sum()
        if off == 0:
            assert row.snr_db is None
        else:
            assert row.snr_db == pytest.approx(10 * math.log10((values**2).sum() / off), abs=0.02)
        if len(tensor.shape) > 1:
            assert row.bits == pytest.approx(8 * found.nbytes / values.size)
    assert report.bits_per_weight <= 4.6
    saved = json.loads((tmp_path / "v" / "variant.json").read_text())["report"]
    assert saved == json.loads(json.dumps(asdict(report)))


def test_rows_that_do_not_fill_blocks_stay_float16_and_count(sources, tmp_path):
    report = make(sources["gemma3n"], tmp_path / "v", "int4")
    formats = {row.name: row.format for row in report.tensors}
    assert formats["blk.0.ffn_down.weight"] == "f16"  # rows of 77
    assert report.bits_per_weight > 4.6


def test_calibration_is_used_and_told(sources, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    model = opened(sources["gguf"])
    moments = calibrate(model, tmp_path / "text.txt", tmp_path)
    report = quantize(model, tmp_path / "v", "int4", moments=moments)
    assert report.calibration_tokens == moments.tokens > 64
    plain = make(sources["gguf"], tmp_path / "plain", "int4")
    assert plain.calibration_tokens == 0
    found, other = opened(tmp_path / "v").file.tensors, opened(tmp_path / "plain").file.tensors

    def lost(tensors):
        """Of the products of all matrices, squared."""
        total = 0.0
        for name, moment in moments.of_matrix.items():
            off = tensors[name].dequantize() - model.file.tensors[name].dequantize()
            total += np.trace(off @ moment @ off.T)
        return total

    assert lost(found) < 0.97 * lost(other)


def test_memory_is_given_back_piece_by_piece(sources, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(quantizing, "drop_pages", lambda data: given.append(data.nbytes))
    make(sources["gguf"], tmp_path / "v", "fp32")
    tensors = opened(sources["gguf"]).file.tensors
    assert given == [tensor.nbytes for tensor in tensors.values()]


def test_what_is_let_go_can_be_read_again(sources):
    tensor = opened(sources["gguf"]).file.tensors["blk.0.ffn_up.weight"]
    before = tensor.dequantize()
    mapping.drop_pages(tensor.data)
    assert np.array_equal(tensor.dequantize(), before)
    mapping.drop_pages(np.ones(3))  # no file: nothing to do


@pytest.mark.parametrize("mode", ["int5", "", "as-stored", "INT4"])
def test_unknown_modes(sources, mode, tmp_path):
    with pytest.raises(RequestError, match="expected one of fp32, fp16, int8, int4"):
        make(sources["gguf"], tmp_path / "v", mode)
    assert list(tmp_path.iterdir()) == []


def test_progress_ends_at_one_and_cancelling_leaves_nothing(sources, tmp_path):
    told = []
    make(sources["gguf"], tmp_path / "v", "int8", progress=lambda stage, part: told.append(part))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)

    def cancel(stage, part):
        raise CancelledError("no")

    with pytest.raises(CancelledError):
        make(sources["gguf"], tmp_path / "w", "int8", progress=cancel)
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


def damaged(path, name, value, dtype="f32"):
    size = TinyLlama(dtype=dtype)
    tensors = llama_tensors(size)
    shape = tensors[name].shape
    values = FORMATS[dtype].dequantize(np.frombuffer(tensors[name].data, np.uint8), shape)
    values[1, 5] = value
    data = FORMATS[dtype].quantize(values)
    changed = tensors | {name: Tensor(dtype, shape, data.tobytes())}
    path.write_bytes(build_gguf(llama_metadata(size), changed))
    return path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_weights_that_are_not_finite_are_named(tmp_path, mode, value, dtype):
    source = damaged(tmp_path / "bad.gguf", "blk.1.ffn_up.weight", value, dtype)
    expected = "tensor blk.1.ffn_up.weight: expected finite weights, found NaN or infinity"
    with pytest.raises(FileError, match=expected):
        make(source, tmp_path / "v", mode)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.gguf"]


def test_weights_too_large_for_the_mode_are_named(tmp_path):
    source = damaged(tmp_path / "large.gguf", "blk.1.ffn_up.weight", 1e38)
    with pytest.raises(UnsupportedError, match=r"blk\.1\.ffn_up\.weight' reaches 1e\+38"):
        make(source, tmp_path / "v", "fp16")


def test_another_tokenizer_is_refused(sources, tmp_path):
    make(sources["huggingface"], tmp_path / "v", "int4")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        file = tmp_path / "v" / name
        file.write_text(file.read_text().replace("<|im_end|>", "<|im_END|>"))
    with pytest.raises(FileError, match="the tokenizer is not the one that this variant was made"):
        opened(tmp_path / "v")


def test_a_broken_variant_says_so_wherever_a_model_is_opened(sources, tmp_path):
    make(sources["huggingface"], tmp_path / "v", "int4")
    for path in (tmp_path / "v", tmp_path / "v" / "variant.json", tmp_path / "v" / "config.json"):
        opened(path).close()
    (tmp_path / "v" / "variant.json").unlink()
    for path in (tmp_path / "v", tmp_path / "v" / "model.safetensors"):
        with pytest.raises(LlmLiteError, match=r"variant\.json: no such file"):
            opened(path)


def tensor(dtype, shape=(64, 64)):
    return TensorData("t", dtype, shape, encode(dtype, np.ones(shape, np.float32)))


@pytest.mark.parametrize(
    ("stored", "mode", "words"),
    [
        ("q4_0", "int8", ["100 % of the weights are q4_0, 4.5 bits each", "rounds once more"]),
        ("q4_1", "int4", ["q4_1, 5 bits each: ", "int4 keeps what that lost lost"]),
        ("q8_0", "fp32", ["q8_0, 8.5 bits each", "a float source would do better"]),
        ("int4", "int4", ["int4, 4.5 bits each"]),
    ],
)
def test_a_source_that_lost_before_is_warned_of(stored, mode, words):
    warning = lossy_source({"t": tensor(stored)}, mode)
    assert all(word.replace(": ", "") in warning for word in words)
    assert ("rounds once more" in warning) == (mode in ("int4", "int8"))


@pytest.mark.parametrize(
    ("stored", "mode"), [("f32", "int4"), ("bf16", "fp16"), ("q8_0", "int4"), ("f16", "fp32")]
)
def test_a_better_source_is_not(stored, mode):
    assert lossy_source({"t": tensor(stored), "v": tensor("f32", (64,))}, mode) is None


def test_raised_matrices_are_mapped_too(tmp_path):
    """Loaded in mode int4, a variant with matrices at int8 is used as it lies on the disk."""
    sizes = {"width": 256, "heads": 8, "kv_heads": 1, "ffn": 512, "dtype": "f32"}
    source = write_tiny_gguf(tmp_path / "wide.gguf", **sizes)
    report = make(source, tmp_path / "v", "int4")
    formats = {row.name: row.format for row in report.tensors}
    assert formats["blk.1.attn_v.weight"] == "int8"
    assert formats["blk.1.attn_k.weight"] == "int4"
    assert 4.5 < report.bits_per_weight <= 4.6
    with running(tmp_path / "v", exact("cpu", mode="int4")) as runner:
        tensors = runner.model_file.file.tensors
        assert_mapped(runner.executor._weights, tensors)
    assert np.array_equal(logits(tmp_path / "v"), logits(source, "int4"))


def test_a_variant_has_both_templates_of_its_source(tmp_path):
    """That of prompts with functions may be in a folder of the source; a variant has no folders."""
    source, usual, offering = write_tiny_llama(tmp_path / "hf"), "{{ messages }}", "{{ tools }}"
    (source / "chat_template.jinja").write_text(usual)
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tool_use.jinja").write_text(offering)
    make(source, tmp_path / "int8", "int8")
    for path in (source, tmp_path / "int8"):
        model = opened(path)
        assert (model.template.source, model.template.for_tools().source) == (usual, offering)
        model.close()
    (source / "additional_chat_templates" / "tool_use.jinja").write_bytes(b"\xff")
    with pytest.raises(FileError, match="not valid UTF-8"):
        make(source, tmp_path / "broken", "int8")
