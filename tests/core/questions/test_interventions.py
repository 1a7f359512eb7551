"""Interventions give what hooks of transformers give, to a thousandth: of tiny checkpoints of
several families on every executor, and of SmolLM2."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.messages.interventions import Interventions, Scale, Shift
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.sites import site_of
from tests.asking import asked
from tests.families import family_of
from tests.family_checks import write_case
from tests.intervention_cases import (
    FACTOR,
    FAMILIES,
    HEAD,
    LAYER,
    MLP,
    POSITIONS,
    UNTIL,
    source_of,
    tokens_of,
    vector_of,
)
from tests.paths import ROOT
from tests.runners import BACKENDS, exact, running


@cache
def known(name: str) -> dict[str, np.ndarray]:
    with np.load(ROOT / "tests" / "fixtures" / "interventions.npz") as arrays:
        parts = [one for one in arrays if one.startswith(f"{name}.")]
        return {one.partition(".")[2]: arrays[one] for one in parts}


def check_alike(found: np.ndarray, expected: np.ndarray) -> None:
    """To a thousandth of the largest number."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()


def end_of(layer: int) -> str:
    return f"blocks.{layer}.hook_resid_post"


def changes_of(
    runner, layer: int, attends: int, positions, mlp: str = "feed_forward.down"
) -> dict[str, Interventions]:
    """By the names of the fixture."""
    end = end_of(layer)
    columns = site_of(runner.executor.program.plans[0], end).columns
    vector = tuple(vector_of(columns).tolist())
    return {
        "shift": Interventions((Shift(end, vector, positions=positions),)),
        "scale": Interventions((Scale(f"layers.{attends}.attention.heads", 0.0, unit=HEAD),)),
        "mlp": Interventions((Scale(f"layers.{layer}.{mlp}", FACTOR, positions=positions),)),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_models_of_every_kind(tmp_path: Path, device, family, backend):
    expected, own = known(family), family_of(family)
    path = write_case(own, next(iter(own.cases)), tmp_path)
    every = tuple(range(len(expected["plain"])))
    with running(path, exact(backend, whole_caches=True), device=device) as runner:
        runner.session.prefill(tokens_of(family).tolist())
        mlp = MLP.get(family, "feed_forward.down")
        changes = changes_of(runner, 0, int(expected["attends"]), POSITIONS, mlp)
        for name, one in changes.items():
            found = asked(ReadPatch(interventions=one, tokens=every), runner)
            check_alike(found.logits_before, expected["plain"])
            check_alike(found.logits_after[0, 0], expected[name])
            assert np.abs(expected[name] - expected["plain"]).max() > 0.01, name
        end = end_of(runner.model_info.layers - 1)
        inside = asked(ReadActivations((end,), interventions=changes["shift"]), runner)
        check_alike(inside.values[end], expected["inside"])
        source = tuple(source_of(family).tolist())
        wanted = ReadPatch((end_of(0),), source, (POSITIONS[0], UNTIL), tokens=every)
        check_alike(asked(wanted, runner).logits_after[0, 0], expected["patch"])


def test_a_real_model(smollm2: Path):
    """Its weights stay rounded as they are in the file, where transformers multiplies too."""
    expected = known("smollm2")
    columns = tuple(expected["columns"].tolist())
    with running(smollm2, exact("cpu", mode="as-stored")) as runner:
        runner.session.prefill(expected["tokens"].tolist())
        for name, one in changes_of(runner, LAYER, LAYER, (2, 5)).items():
            found = asked(ReadPatch(interventions=one, tokens=columns), runner)
            check_alike(found.logits_before, expected["plain"])
            check_alike(found.logits_after[0, 0], expected[name])
        source = tuple(expected["source"].tolist())
        wanted = ReadPatch((end_of(LAYER),), source, tokens=columns)
        check_alike(asked(wanted, runner).logits_after[0, 0], expected["patch"])
