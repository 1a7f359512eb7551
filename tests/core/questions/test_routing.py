"""The experts that tokens chose are those that transformers chose, on every executor."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import ReadRouting
from tests.asking import asked
from tests.families import family_of
from tests.family_checks import MIXTURES, check_routing, check_switched_off, reference, write_case
from tests.runners import BACKENDS, exact, running

CASES = [(name, case) for name in MIXTURES for case in family_of(name).cases]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_routing_is_that_of_transformers(tmp_path, device, name, case, backend):
    check_routing(family_of(name), case, backend, tmp_path, device)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_expert_that_is_off_counts_nothing(tmp_path, device, name, case, backend):
    check_switched_off(family_of(name), case, backend, tmp_path, device)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_expert_may_be_chosen_always_or_last(tmp_path, device, backend):
    path = write_case(family_of("olmoe"), "plain", tmp_path)
    tokens = reference(family_of("olmoe"), "plain").tokens
    with running(path, exact(backend), device=device) as runner:
        session, info = runner.session, runner.model_info
        session.prefill(tokens)
        before = Routing.of(asked(ReadRouting(), runner))
        often = int(np.bincount(before.chosen[:, 1].ravel()).argmax())
        seldom = int(np.bincount(before.chosen[:, 1].ravel(), minlength=info.experts).argmin())
        gains = [list(row) for row in session.gains]
        row = gains[info.layers + 1]
        row[info.experts + often], row[info.experts + seldom] = 0.0, 2.0
        session.set_gains(tuple(map(tuple, gains)), throughout=True)
        session.prefill(tokens)
        after = Routing.of(asked(ReadRouting(), runner))
    assert (after.chosen[:, 1] != often).all()
    assert (after.chosen[:, 1, 0] == seldom).all()
    np.testing.assert_array_equal(after.chosen[:, 0], before.chosen[:, 0])


def test_a_model_without_experts_says_so(tiny_llama):
    with running(tiny_llama) as runner:
        runner.session.prefill([1, 2, 3])
        assert runner.model_info.expert_layers == ()
        with pytest.raises(RequestError, match="the model has no experts"):
            asked(ReadRouting(), runner)


def test_choices_are_not_kept_without_a_budget(tmp_path):
    path = write_case(family_of("olmoe"), "plain", tmp_path)
    with running(path, exact("cpu", query_budget=0)) as runner:
        assert (runner.model_info.experts, runner.model_info.chosen_experts) == (9, 4)
        assert runner.model_info.expert_layers == (0, 1)
        with pytest.raises(RequestError, match="memory budget of queries"):
            asked(ReadRouting(), runner)
