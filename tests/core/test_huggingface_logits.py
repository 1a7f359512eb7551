"""Tiny random checkpoints against the reference implementation's float32 logits, three executors.

fixtures/make_huggingface_logits.py made the logits.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.make_huggingface import (
    GEMMA3N_CASES,
    LLAMA_CASES,
    write_tiny_gemma3n,
    write_tiny_llama,
)
from tests.runners import BACKENDS, exact, running

LOGITS = Path(__file__).parents[1] / "fixtures" / "huggingface_logits.npz"
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
    from core.formats import huggingface_llama

    original = huggingface_llama._metadata
    monkeypatch.setattr(
        huggingface_llama,
        "_metadata",
        lambda config: original(config) | {"llama.rope.pairing": "interleaved"},
    )
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
