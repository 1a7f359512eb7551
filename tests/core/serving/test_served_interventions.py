"""Each request of a server has its own interventions, whatever is in its steps."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import SetInterventions
from llm_lite.core.messages.interventions import Interventions, LiveChanges, Scale, Shift
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.interventions.live import live_changes
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.serving.pages import first_name
from tests.asking import asked
from tests.core.serving.clients import GREEDY, Asked, serve
from tests.runners import BACKENDS, exact, running

PROMPT = tuple(range(5, 285))
OTHER = tuple(range(30, 60))
WIDTH = 64
END = "blocks.0.hook_resid_post"
VECTORS = [tuple(one.tolist()) for one in 0.4 * np.random.default_rng(4).normal(size=(3, WIDTH))]
CHANGES = [
    Interventions(),
    Interventions((Shift(END, VECTORS[0]),)),
    Interventions((Shift(END, VECTORS[1]), Shift("blocks.1.hook_resid_post", VECTORS[2]))),
    Interventions((Scale("layers.1.attention.heads", 0.0, unit=2), Shift(END, VECTORS[1]))),
]


def use(runner, interventions):
    changes = live_changes(interventions, runner.executor.program)
    ones = tuple((1.0,) * len(row) for row in runner.session.gains)
    runner.set_gains(changes.gains or ones, changes.shifts, throughout=True)


def in_the_chat(path, backend, device, tokens, interventions):
    with running(path, exact(backend), device=device) as runner:
        use(runner, interventions)
        said = []
        for _ in range(GREEDY.max_new_tokens):
            said.append(int(runner.session.prefill((*tokens, *said)).argmax()))
        return said


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_answer_has_its_own_interventions(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=3)
    wanted = [(p, one) for one in CHANGES for p in (PROMPT, OTHER)]
    together = [Asked(service, tokens=p, interventions=one) for p, one in wanted]
    found = [one.tokens() for one in together]
    alone = [Asked(service, tokens=p, interventions=one).tokens() for p, one in wanted]
    assert found == alone
    assert found == [in_the_chat(served_model, backend, device, *one) for one in wanted]
    assert len(set(map(tuple, found))) == len(wanted)


def test_pages_are_shared_under_the_same_interventions_only(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    found = [Asked(service, tokens=PROMPT, interventions=CHANGES[i]) for i in (0, 1, 1, 0)]
    reused = []
    for one in found:
        one.finished()
        reused.append(one.started.reused_tokens)
    assert sorted(bool(one) for one in reused) == [False, False, True, True]
    shifts = (((0, VECTORS[0]),), ((1, VECTORS[0]),), ((0, VECTORS[1]),), ())
    assert len({first_name(LiveChanges(None, one)) for one in shifts}) == len(shifts)


@pytest.mark.parametrize("backend", BACKENDS)
def test_questions_about_an_answer_are_of_its_shifts(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=1)
    Asked(service, tokens=PROMPT, interventions=CHANGES[2], response="r").finished()
    Asked(service, tokens=OTHER, interventions=CHANGES[1]).finished()  # in the only place
    sites = (END, "blocks.1.hook_resid_post")
    found = service.ask("r", ReadActivations(sites, 9))
    halved = ReadPatch(interventions=Interventions((Scale("layers.0.feed_forward.down", 0.5),)))
    patched = service.ask("r", halved)
    with running(served_model, exact(backend), device=device) as runner:
        use(runner, CHANGES[2])
        runner.session.prefill(service.answer_tokens("r").tokens)
        expected = asked(ReadActivations(sites, 9), runner)
        same = asked(halved, runner)
    for site in sites:
        np.testing.assert_allclose(found.values[site], expected.values[site], atol=2e-3)
    np.testing.assert_array_equal(patched.tokens, same.tokens)
    np.testing.assert_allclose(patched.after, same.after, atol=1e-3)


def test_the_chat_is_shifted_beside_clients(client, served_model):
    """Its steps and theirs are the same ones."""
    client.load(served_model, exact())
    alone = {}
    for interventions in (CHANGES[0], CHANGES[1]):
        client.result(SetInterventions(interventions))
        alone[interventions] = client.ask()[1]
    assert alone[CHANGES[0]] != alone[CHANGES[1]]
    service = serve(client, parallel=2)  # which goes on with what is in force
    wanted = [(PROMPT, CHANGES[0]), (OTHER, CHANGES[2])]
    expected = [Asked(service, tokens=p, interventions=one).tokens() for p, one in wanted]
    asking = [Asked(service, tokens=p, interventions=one) for p, one in wanted]
    assert client.ask()[1] == alone[CHANGES[1]]
    assert [one.tokens() for one in asking] == expected
    client.result(SetInterventions(Interventions()))
    asking = [Asked(service, tokens=p, interventions=one) for p, one in wanted]
    assert client.ask(conversation=2)[1] == alone[CHANGES[0]]
    assert [one.tokens() for one in asking] == expected


def test_interventions_that_cannot_act_are_refused(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    with pytest.raises(RequestError, match="only what layers leave"):
        Asked(service, tokens=OTHER, interventions=Interventions((Shift("embedding", VECTORS[0]),)))
    with pytest.raises(RequestError, match="made for another, and the model is"):
        Asked(service, tokens=OTHER, interventions=Interventions(CHANGES[1].changes, "another"))
    with pytest.raises(RequestError, match="only heads"):
        client.result(SetInterventions(Interventions((Scale("embedding", 0.0),))))
