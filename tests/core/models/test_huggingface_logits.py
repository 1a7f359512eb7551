"""Tiny random checkpoints against the reference implementation's float32 logits, three executors.

fixtures/make_huggingface_logits.py made the logits.
"""

import numpy as np
import pytest

from llm_lite.core.loading import loader
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.plan.step import PAGE
from tests.make_huggingface import (
    GEMMA3N_CASES,
    GEMMA3N_CONFIG,
    LLAMA_CASES,
    gemma3n_tensors,
    write_folder,
    write_tiny_gemma3n,
    write_tiny_llama,
)
from tests.make_safetensors import entry
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running

LOGITS = FIXTURES / "huggingface_logits.npz"
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def reference():
    with np.load(LOGITS) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LLAMA_CASES)
def test_llama(case, backend, reference, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    tokens = reference[f"{case}.tokens"].tolist()
    folder = write_tiny_llama(tmp_path, **LLAMA_CASES[case])
    with running(folder, exact(backend), device=device, every_output=True) as runner:
        logits = runner.session.logits(tokens)
    assert np.abs(logits - reference[f"{case}.logits"]).max() < TOLERANCE


def test_the_pairing_of_rotary_positions_matters(reference, tmp_path, monkeypatch):
    """The reference is not met by neighbours, so the test above tests the pairing."""
    original = Architecture.translate

    def translate(self, config, tensors):
        result = original(self, config, tensors)
        result.metadata["llama.rope.pairing"] = "interleaved"
        return result

    monkeypatch.setattr(Architecture, "translate", translate)
    with running(write_tiny_llama(tmp_path), exact("cpu"), every_output=True) as runner:
        logits = runner.session.logits(reference["plain.tokens"].tolist())
    assert np.abs(logits - reference["plain.logits"]).max() > 0.1


@pytest.mark.parametrize("dtype", ["BF16", None])
def test_shards_and_types_make_no_difference(dtype, tmp_path):
    tokens = list(range(20, 50))
    found = []
    for shards in (1, 3):
        folder = write_tiny_llama(tmp_path / str(shards), shards=shards, dtype=dtype)
        with running(folder, exact("cpu"), every_output=True) as runner:
            found.append(runner.session.logits(tokens))
            stored = runner.model_info.stored_formats
    assert set(stored) == {"bf16" if dtype else "f32"}
    assert np.array_equal(*found)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", GEMMA3N_CASES)
def test_gemma3n(case, backend, reference, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    tokens = reference[f"{case}.tokens"].tolist()
    folder = write_tiny_gemma3n(tmp_path, **GEMMA3N_CASES[case])
    with running(folder, exact(backend), device=device, every_output=True) as runner:
        logits = runner.session.logits(tokens)
    assert np.abs(reference[f"{case}.logits"]).max() > 5
    assert np.abs(logits - reference[f"{case}.logits"]).max() < TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_gemma3n_past_its_window_however_it_is_fed(backend, reference, tmp_path, request):
    """In one prefill, in uneven chunks and token by token: the window is 7 of 40 positions."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    tokens, expected = reference["gemma.tokens"].tolist(), reference["gemma.logits"]
    with running(write_tiny_gemma3n(tmp_path), exact(backend), device=device) as runner:
        session = runner.session
        assert session.executor.program.max_tokens >= len(tokens)
        assert np.abs(session.prefill(tokens) - expected[-1]).max() < TOLERANCE
        for cuts in ([3, 8, 9, 25, 40], list(range(1, 41))):
            session.clear()
            for end in cuts:
                error = np.abs(session.prefill(tokens[:end]) - expected[end - 1]).max()
                assert error < TOLERANCE, end


def test_the_window_matters(reference, tmp_path):
    """The case above leaves the window: with a larger one other logits come out."""
    with running(write_tiny_gemma3n(tmp_path, sliding_window=40), exact("cpu")) as runner:
        logits = runner.session.prefill(reference["gemma.tokens"].tolist())
    assert np.abs(logits - reference["gemma.logits"][-1]).max() > 0.05


def multimodal(folder, prefix):
    """The text model inside a multimodal checkpoint, with tensors of its towers."""
    tower = entry(np.ones((2, 3), np.float32))
    towers = {
        "model.vision_tower.timm_model.conv_stem.weight": tower,
        "model.embed_vision.embedding.weight": tower,
        "model.audio_tower.conformer.0.weight": tower,
    }
    config = {"model_type": "gemma3n", "text_config": GEMMA3N_CONFIG, "vision_config": {}}
    return write_folder(folder, config, gemma3n_tensors(GEMMA3N_CONFIG, None, prefix) | towers)


@pytest.mark.parametrize("prefix", ["model.", "model.language_model.", "language_model.model."])
def test_gemma3n_under_any_prefix_beside_towers(prefix, reference, tmp_path):
    folder, notes = multimodal(tmp_path, prefix), []
    file = loader.open_model(str(folder), lambda *_: None, notes.append)
    runner = loader.start(file, exact("cpu"), None, lambda *_: None, every_output=True)
    logits = runner.session.logits(reference["gemma.tokens"].tolist())
    runner.close()
    file.close()
    assert np.abs(logits - reference["gemma.logits"]).max() < TOLERANCE
    assert notes == [
        f"{folder}: the vision tower (2 tensors) is not used: this is the text model",
        f"{folder}: the audio tower (1 tensors) is not used: this is the text model",
    ]


@pytest.mark.parametrize("mode", ["int4", "int8", "fp16"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gemma3n_in_other_modes(mode, backend, reference, tmp_path, request):
    """Executors agree with each other; the table of per-layer embeddings stays as it is stored."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    tokens = reference["gemma.tokens"].tolist()
    folder = write_tiny_gemma3n(tmp_path, dtype="BF16")
    with running(folder, exact(mode=mode), every_output=True) as runner:
        expected = runner.session.logits(tokens)
    with running(folder, exact(backend, mode=mode), device=device, every_output=True) as runner:
        assert np.abs(runner.session.logits(tokens) - expected).max() < TOLERANCE
        table = runner.model_file.file.tensors["per_layer_token_embd.weight"]
        assert not table.data.flags.owndata
        assert table.dtype == "bf16"
    assert np.abs(expected - reference["gemma.logits"]).max() > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gemma3n_in_rings(backend, tmp_path, request):
    """Sliding layers keep a page of 300 positions; going back to an earlier turn reads anew what
    the rings have lost. Whole caches give the same."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path = write_tiny_gemma3n(tmp_path, max_position_embeddings=512)
    tokens = [3 + n * 7 % 280 for n in range(300)]
    turns = ([*tokens[:5], 7, 8, 9], *(tokens[:end] for end in (17, 139, 300)))
    found = []
    for whole in (False, True):
        rings = {} if whole else dict.fromkeys((0, 1, 3), PAGE)  # of the layers that slide
        options = exact(backend, context=320, whole_caches=whole)
        with running(path, options, device=device, every_output=True) as runner:
            session = runner.session
            rows = {layer.layer: layer.rows for layer in session.cache.layers}
            assert rows == dict.fromkeys(range(4), 3 * PAGE) | rings
            found.append([session.logits(tokens), *map(session.prefill, turns)])
    for ring, all_kept in zip(*found, strict=True):
        assert np.abs(ring - all_kept).max() < TOLERANCE
