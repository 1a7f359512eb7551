"""The first layer of every family is shifted, while it writes and where tokens run again: as the
whole text computed at once has it."""

import pkgutil
from pathlib import Path

import numpy as np
import pytest

import tests.fixtures.families as families
from llm_lite.core.messages.interventions import Interventions, Shift
from llm_lite.core.questions.patch import ReadPatch
from tests.asking import asked
from tests.core.generation.test_shifts import use
from tests.core.questions.test_patch import at_once, columns_of
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import exact, running

FAMILIES = [one.name for one in pkgutil.iter_modules(families.__path__)]
TOKENS = tuple(np.random.default_rng(5).integers(30, 250, 30).tolist())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_shifted_layer(tmp_path: Path, name: str) -> None:
    family = family_of(name)
    case = next(iter(family.cases))
    path, context = write_case(family, case, tmp_path), family.context.get(case, 0)
    with running(path, exact("numpy", context=context)) as runner:
        plan = runner.executor.program.plans[0]
        logits = next(op.label for op in plan.ops if op.outputs[0] == plan.logits)
        end = plan.ops[plan.layer_ends[0]].label
        width = columns_of(runner, end)
        vector = (0.5 * np.random.default_rng(1).normal(size=width)).astype(np.float32)

        def shifted(values):
            values += vector

        expected = at_once(runner, TOKENS, {end: shifted}, (logits,))[logits][-1]
        plain = at_once(runner, TOKENS, {}, (logits,))[logits][-1]
    assert np.abs(expected - plain).max() > 0.01
    shift = Interventions((Shift(end, tuple(vector.tolist())),))
    close = {"atol": 1e-3 * np.abs(expected).max()}
    with running(path, exact("cpu", context=context)) as runner:
        runner.session.prefill(TOKENS)
        every = tuple(range(len(expected)))
        found = asked(ReadPatch(interventions=shift, tokens=every), runner)
        np.testing.assert_allclose(found.logits_after[0, 0], expected, **close)
        use(runner, shift, throughout=True)
        runner.session.prefill(TOKENS[:20])
        runner.session.prefill(TOKENS[:29])
        np.testing.assert_allclose(runner.session.decode(TOKENS[29]), expected, **close)
