"""Each request has gains of its own: as in the chat, whoever is answered in the same steps."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.messages import Inspect, ReadEffect
from llm_lite.core.messages.interventions import LiveChanges
from llm_lite.core.plan.step import PAGE
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.serving.pages import first_name
from tests.asking import asked, lens
from tests.changes import scales
from tests.core.serving.clients import GREEDY, Asked, serve
from tests.runners import BACKENDS, exact, running

PROMPT = tuple(range(5, 285))
OTHER = tuple(range(30, 60))
LAYERS, HEADS = 2, 4
ONES = ((1.0,) * HEADS,) * LAYERS
GAINS = [
    None,
    ((0.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.0, 1.0)),
    ((1.0, 2.0, -0.5, 1.0), (0.25, 1.0, 1.0, 3.0)),
    ((0.5,) * HEADS,) * LAYERS,
]


def in_the_chat(path, backend, device, tokens, gains):
    """The greedy answer of the chat's session whose heads have these gains."""
    with running(path, exact(backend), device=device) as runner:
        session, said = runner.session, []
        session.set_gains(gains or ONES, throughout=True)
        for _ in range(GREEDY.max_new_tokens):
            said.append(int(session.prefill((*tokens, *said)).argmax()))
        return said


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_answer_has_its_own_gains(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=3)
    asked = [(p, gains) for gains in GAINS for p in (PROMPT, OTHER)]
    together = [Asked(service, tokens=p, interventions=scales(gains)) for p, gains in asked]
    found = [one.tokens() for one in together]
    alone = [Asked(service, tokens=p, interventions=scales(gains)).tokens() for p, gains in asked]
    assert found == alone
    expected = [in_the_chat(served_model, backend, device, *one) for one in asked]
    assert found == expected
    assert len(set(map(tuple, found))) == len(asked), "each gains makes another answer"


def test_pages_are_shared_by_answers_of_the_same_gains_only(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    found = [
        Asked(service, tokens=PROMPT, interventions=scales(g))
        for g in (None, GAINS[1], GAINS[1], None)
    ]
    reused = []
    for one in found:
        one.finished()
        reused.append(one.started.reused_tokens // PAGE)
    assert sorted(reused) == [0, 0, 2, 2]
    again = Asked(service, tokens=PROMPT, interventions=scales(GAINS[1]))
    assert again.finished().stats.reused_tokens == 2 * PAGE
    names = {first_name(LiveChanges(gains)) for gains in GAINS}
    assert len(names) == len(GAINS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_lens_of_an_answer_sees_its_gains(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=1)
    for gains in GAINS:
        Asked(service, tokens=OTHER, interventions=scales(gains), response="looked at").finished()
        Asked(
            service, tokens=OTHER, interventions=scales(GAINS[3])
        ).finished()  # which takes the slot
        held = service.answer_tokens("looked at").tokens
        rows = service.ask("looked at", Inspect(len(held) - 1, 3)).rows
        with running(served_model, exact()) as runner:
            runner.session.set_gains(gains or ONES)
            runner.session.prefill(held)
            for row, (_, logits) in zip(rows, lens(runner.session, len(held) - 1), strict=True):
                assert [one.token for one in row.tokens] == [t for t, _ in likeliest(logits, 3)]


def test_drafts_of_an_answer_with_gains_change_nothing(client, served_model):
    client.load(served_model, exact())
    twice = (*OTHER, *OTHER, OTHER[0])
    found = []
    for speculate in ("off", "lookup"):
        service = serve(client, speculate=speculate, parallel=1)
        found.append(Asked(service, tokens=twice, interventions=scales(GAINS[2])).tokens())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        (((1.0,) * 4, (1.0,) * 4, (0.0,) * 4), "no site 'layers.2.attention.heads'"),
        (((0.0,) * 5,) * 2, "heads 0 to 3, found 4"),
        (((np.nan,) * 4,) * 2, "finite"),
    ],
)
def test_gains_that_are_not_of_the_model_are_refused(client, served_model, gains, words):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    with pytest.raises(RequestError, match=words):
        Asked(service, tokens=OTHER, interventions=scales(gains))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_effect_and_activations_of_an_answer_are_of_its_gains(
    client, device, served_model, backend
):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=1)
    Asked(service, tokens=PROMPT, interventions=scales(GAINS[2]), response="r").finished()
    Asked(
        service, tokens=OTHER, interventions=scales(GAINS[1])
    ).finished()  # in the only place of gains
    site = "layers.1.attention.output"
    effect, found = service.ask("r", ReadEffect()), service.ask("r", ReadActivations((site,), 9))
    assert service.ask("r", ReadEffect()) == effect, "the steps of one leave no gains behind"
    with running(served_model, exact(backend), device=device) as runner:
        runner.session.set_gains(GAINS[2], throughout=True)
        runner.session.prefill(service.answer_tokens("r").tokens)
        expected = asked(ReadActivations((site,), 9), runner).values[site]
        assert effect.kl == pytest.approx(asked(ReadEffect(), runner).kl, rel=1e-3)
    assert effect.kl > 1e-3
    np.testing.assert_allclose(found.values[site], expected, atol=1e-3)
