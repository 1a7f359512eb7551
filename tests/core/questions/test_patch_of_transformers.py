"""What is predicted under patches equals what transformers predicts where hooks replace rows, of
each kind of sequence, on every executor: tests/fixtures/make_patched.py made these."""

from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from tests.activation_checks import TOLERANCE, reading
from tests.asking import asked
from tests.patched_cases import POSITIONS, PREDICTED, SITES
from tests.paths import FIXTURES
from tests.runners import BACKENDS
from tests.tiers import tiered

ENCODERS = ("bert.masked", "roberta.masked", "distilbert.masked")
ON_VULKAN = ("gpt2.plain", "qwen3_next.all", "bert.masked", "t5.gated")


@pytest.fixture(scope="module")
def stored():
    with np.load(FIXTURES / "patched.npz") as arrays:
        return dict(arrays)


def question(name: str, stored, **more) -> ReadPatch:
    vocabulary = stored[f"{name}.whole"].shape[-1]
    target = stored.get(f"{name}.target", np.zeros(1, int))[1:]  # behind the token it starts with
    return ReadPatch(
        SITES[name],
        tuple(stored[f"{name}.source"].tolist()),
        POSITIONS,
        position=PREDICTED if name in ENCODERS else None,
        tokens=tuple(range(vocabulary)),
        source_target=tuple(target.tolist()),
        **more,
    )


def check(found, expected) -> None:
    assert np.abs(found - expected).max() < TOLERANCE * np.abs(expected).max()


@tiered(
    "backend,name",
    [(backend, name) for backend in BACKENDS for name in SITES],
    first=[(one, name) for one in BACKENDS for name in (SITES if one != "vulkan" else ON_VULKAN)],
)
def test_patches_of_tiny_models(name, backend, tmp_path: Path, request, stored):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    plain, source = stored[f"{name}.plain"]
    with reading(name, backend, tmp_path / "m", device) as runner:
        sites = SITES[name][:1]
        inside = asked(ReadActivations(sites), runner).values
        whole = asked(question(name, stored), runner)
        each = asked(question(name, stored, each=True), runner)
        again = asked(question(name, stored), runner)
        after = asked(ReadActivations(sites), runner).values
    check(whole.logits_before, plain)
    check(whole.logits_after[0, 0], stored[f"{name}.whole"])
    check(each.logits_after, stored[f"{name}.each"])
    odds = np.exp(source - source.max())
    np.testing.assert_allclose(whole.of_source, odds / odds.sum(), atol=1e-3)
    assert each.kl.shape == (len(SITES[name]), len(POSITIONS)) and whole.kl[0, 0] > 1e-6
    # Nothing of it has stayed.
    np.testing.assert_array_equal(again.logits_after, whole.logits_after)
    np.testing.assert_array_equal(again.logits_before, whole.logits_before)
    for site, rows in inside.items():
        np.testing.assert_array_equal(after[site], rows)
