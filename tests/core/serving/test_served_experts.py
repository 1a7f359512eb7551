"""Clients of a mixture of experts: each answer has its own switches, and its choices are told."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import ReadRouting
from tests.asking import asked as asked_of
from tests.changes import scales
from tests.core.serving.clients import Asked, serve
from tests.families import VOCABULARY, family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact, running

PROMPTS = [tuple(np.random.default_rng(n).integers(3, VOCABULARY, 9 + 5 * n)) for n in range(3)]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return write_case(family_of("olmoe"), "plain", tmp_path_factory.mktemp("mixture"))


def switched(info, layer, expert, share=1.0, choice=1.0):
    """Gains of a model with one expert that counts otherwise."""
    gains = [[1.0] * width for width in info.gain_widths]
    row = gains[info.gain_rows + layer]
    row[expert], row[info.experts + expert] = share, choice
    return tuple(map(tuple, gains))


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_answer_has_its_own_switches(client, device, mixture, backend):
    client.engine.device_lost(device)
    client.load(mixture, exact(backend))
    info = client.engine._host.runner.model_info
    service = serve(client, parallel=3)
    wanted = [None, switched(info, 1, 2, choice=2.0), switched(info, 0, 4, share=0.0)]
    asked = [(prompt, gains) for gains in wanted for prompt in PROMPTS]
    together = [
        Asked(service, tokens=prompt, interventions=scales(gains)) for prompt, gains in asked
    ]
    found = [one.tokens() for one in together]
    told = []
    for (prompt, gains), said in zip(asked, found, strict=True):
        one = Asked(service, tokens=prompt, interventions=scales(gains))
        assert one.tokens() == said
        told.append(Routing.of(service.ask(one.response, ReadRouting())))
    with running(mixture, exact("numpy")) as runner:
        session, ones = runner.session, runner.session.gains
        for (prompt, gains), said, routing in zip(asked, found, told, strict=True):
            session.set_gains(gains or ones, throughout=True)
            session.prefill((*prompt, *said[:-1]))
            expected = Routing.of(asked_of(ReadRouting(), runner))
            assert routing.layers == expected.layers == (0, 1)
            np.testing.assert_array_equal(routing.chosen, expected.chosen)
            assert np.abs(routing.shares - expected.shares).max() < 1e-4
    forced = told[len(PROMPTS)]
    assert (forced.chosen[:, 1, 0] == 2).all()


def test_what_there_is_not_is_named(client, mixture, served_model):
    client.load(mixture, exact("cpu"))
    service = serve(client)
    answer = Asked(service, tokens=PROMPTS[0])
    answer.finished()
    late = Routing.of(service.ask(answer.response, ReadRouting(4)))
    assert late.first == 4
    with pytest.raises(RequestError, match="position 99 is not in the cache"):
        service.ask(answer.response, ReadRouting(99))
    with pytest.raises(RequestError, match="experts 0 to 8, found 9"):
        Asked(service, tokens=PROMPTS[0], interventions=scales((*((1.0,) * 6,) * 2, (0.0,) * 20)))
    client.load(served_model, exact("cpu"))
    answer = Asked(service := serve(client), tokens=(5, 6, 7))
    answer.finished()
    with pytest.raises(RequestError, match="the model has no experts"):
        service.ask(answer.response, ReadRouting())
