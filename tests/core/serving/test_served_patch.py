"""What would follow a response under interventions, whatever its caches are: as of a session, and
nothing of it stays in the pages that others share."""

from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.interventions import Interventions, Scale, Shift
from llm_lite.core.plan.step import PAGE
from llm_lite.core.questions import patch
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.sites import site_of
from llm_lite.core.serving import response_replay
from tests.asking import asked
from tests.core.serving.clients import Asked, serve
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact, running

FEW = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=6)
RANDOM = np.random.default_rng(8)
TEXT = tuple(RANDOM.integers(30, 260, PAGE + 40).tolist())
OTHER = tuple(RANDOM.integers(30, 260, 60).tolist())
END = "blocks.0.hook_resid_post"


@pytest.fixture(scope="module")
def windowed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gemma2") / "m"
    return write_case(family_of("gemma2"), "plain", folder, max_position_embeddings=16 * PAGE)


def questions(width: int) -> list:
    vector = tuple(RANDOM.normal(size=width).tolist())
    moved = Interventions((Shift(END, vector, positions=(3, PAGE + 2)), Scale(END, 0.5)))
    last = PAGE + 39
    return [
        ReadPatch(interventions=moved, position=last),
        ReadPatch((END,), OTHER, (last - 3, last), (9, 59), position=last),
        ReadPatch((END, "blocks.1.hook_resid_post"), OTHER, (last - 2, last), (5, 6), each=True),
        ReadActivations(("blocks.1.hook_resid_post",), PAGE - 5, last, moved),
    ]


def compare(found, expected) -> None:
    for name in found.__struct_fields__:
        one, other = getattr(found, name), getattr(expected, name)
        if name == "values":
            for site, rows in one.items():
                np.testing.assert_allclose(rows, other[site], atol=2e-3, rtol=1e-3)
        elif isinstance(one, np.ndarray) and one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, atol=2e-3, rtol=1e-3, err_msg=name)
        else:
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("kind", ["plain", "windowed", "recurrent"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_responses_answer_as_sessions_do(
    client, device, served_model, windowed, recurrent_folder, backend, kind
):
    path = {"plain": served_model, "windowed": windowed, "recurrent": recurrent_folder}[kind]
    client.engine.device_lost(device)
    client.load(path, exact(backend, query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    Asked(service, tokens=TEXT, sampling=FEW, response="r").finished()
    before = Asked(service, tokens=(*TEXT, 9), sampling=FEW).tokens()
    held = service.answer_tokens("r").tokens
    with running(path, exact("cpu", whole_caches=True)) as runner:
        runner.session.prefill(held)
        width = site_of(runner.executor.program.plans[0], END).columns
        wanted = questions(width)
        expected = [asked(one, runner) for one in wanted]
    for one, other in zip(wanted, expected, strict=True):
        compare(service.ask("r", one), other)
    with pytest.raises(RequestError, match="do not fit into the part of the cache"):
        service.ask("r", ReadPatch((END,), TEXT * 2, (3,)))
    # Pages that it shares hold what they held.
    assert Asked(service, tokens=(*TEXT, 9), sampling=FEW).tokens() == before
    again = Asked(service, tokens=(*held, 9), sampling=FEW)
    said = again.tokens()
    with running(path, exact("cpu", whole_caches=True)) as runner:
        logits = [runner.session.prefill((*held, 9))]
        logits += [runner.session.decode(token) for token in said[:-1]]
        assert all(row.max() - row[t] < 2e-3 for row, t in zip(logits, said, strict=True))


def test_what_runs_again_for_one_request_has_a_limit(client, served_model, monkeypatch):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    Asked(service, tokens=TEXT, sampling=FEW, response="r").finished()
    monkeypatch.setattr(patch, "MOST_OF_A_CLIENT", 500)
    grid = ReadPatch((END,), OTHER, tuple(range(20)), each=True)
    with pytest.raises(RequestError, match="tokens would run again: at most 500"):
        service.ask("r", grid)
    monkeypatch.setattr(response_replay, "MOST_AGAIN", 50)
    moved = Interventions((Scale(END, 0.5, positions=(0,)),))
    with pytest.raises(RequestError, match="tokens would run again: at most 50"):
        service.ask("r", ReadPatch(interventions=moved))


def test_a_window_that_others_took_refuses(client, windowed):
    client.load(windowed, exact(query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    long = tuple(RANDOM.integers(30, 260, 8 * PAGE + 9).tolist())
    Asked(service, tokens=long, response="first", sampling=FEW).tokens()
    early = ReadPatch(interventions=Interventions((Scale(END, 0.5, positions=(40,)),)))
    assert service.ask("first", early).kl.shape == (1, 1)
    for token in range(31, 39):
        Asked(service, tokens=(token, 40, 41), sampling=FEW).tokens()
    with pytest.raises(RequestError, match="no longer in the caches of layers with a window"):
        service.ask("first", early)
    with pytest.raises(RequestError, match="no longer in the caches of layers with a window"):
        service.ask("first", ReadPatch((END,), OTHER * 16))
