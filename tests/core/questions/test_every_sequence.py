"""Every question gives the same answer about the same tokens: of a session, of a served response,
of another llm-lite, and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.messages import ChatMessage, Generate, SamplingOptions
from llm_lite.core.messages.interventions import Interventions, Shift
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.questions import activations, wire
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.table import BY_NAME, BY_REQUEST, QUESTIONS, named
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.engine import RemoteEngine
from llm_lite.server import questions
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked, replay
from tests.children import PATIENCE
from tests.core.serving.clients import serve
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

HELLO = (ChatMessage("user", "Why is the sky blue?"),)
FEW = SamplingOptions(temperature=0.0, max_new_tokens=8)
SHIFTED = Interventions(
    (Shift("layers.0.feed_forward.residual", tuple(1 / (1 + i) for i in range(64)), None, (4, 5)),)
    * 2
)  # longer than an address may be
_OF_A_MOMENT = ("version", "epoch")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, recurrent_folder: Path) -> dict[str, Path]:
    """By question the model that can answer it."""
    folder = tmp_path_factory.mktemp("asked")
    plain = write_tiny_llama(folder / "tiny.gguf", context=512, seed=2)
    mixture = write_case(family_of("olmoe"), "plain", folder)
    return {**dict.fromkeys(BY_NAME, plain), "states": recurrent_folder, "experts": mixture}


@contextmanager
def elsewhere(service: Any) -> Iterator[RemoteEngine]:
    """A server of this service, and the engine of a window that is connected to it."""
    server = Server(service, ServerConfig(port=0))
    server.start()
    try:
        client = Client(read_address(server.address), ApiKey())
        told = connect(client, Exchange())
        engine = RemoteEngine(client, told, told.models[0])
        try:
            yield engine
        finally:
            engine.close()
    finally:
        server.stop()


WANTED = (
    *(one.example for one in QUESTIONS),
    ReadActivations(("layers.1.attention.heads", "logits"), 3),  # which run tokens in two ways
    ReadActivations(("logits",), 3, interventions=SHIFTED),
    ReadPatch(("layers.0.feed_forward.residual",), (7, 8, 9, 10), (2, 3), each=True),
    ReadPatch(interventions=SHIFTED),
)


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: BY_REQUEST[type(one)].name)
def test_all_sequences_give_the_same_answer(client, models: dict[str, Path], wanted) -> None:
    question = BY_REQUEST[type(wanted)]
    path = models[question.name]
    client.load(path, exact("cpu"))
    service = serve(client, parallel=2)
    with elsewhere(client.engine.service) as engine:
        engine.submit(Generate(HELLO, FEW)).result(PATIENCE)
        held = engine.held
        assert held is not None and len(held.tokens) > 8
        of_a_server = engine.submit(wanted).result(PATIENCE)
    of_a_response = service.ask(held.response, wanted)
    with running(path, exact("cpu", query_budget=EVERY_QUERY, whole_caches=True)) as runner:
        runner.session.prefill(held.tokens)
        expected = asked(wanted, runner)
    parameters = {one.name: getattr(wanted, one.name) for one in wire.parameters(question)}
    with llm_lite.load(path, backend="cpu", keys="fp32", values="fp32", activations="a32") as model:
        in_python = model.ask(held.tokens, question.name, **parameters)
    for found in (of_a_response, of_a_server):
        check_same(question.present(found), question.present(expected))
    check_same(in_python, question.present(expected))


def check_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    mine, others = (dict(leaves(wire.plain(one))) for one in (found, expected))
    assert mine.keys() == others.keys()
    for place, value in mine.items():
        other = others[place]
        if isinstance(value, float) and isinstance(other, float):
            assert value == pytest.approx(other, abs=5e-4), place
        else:
            assert value == other, place


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in an answer, by its place; not what counts changes of a moment."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name not in _OF_A_MOMENT:
                yield from leaves(one, f"{place}.{name}")
    elif isinstance(value, list):
        yield f"{place}.length", len(value)
        for number, one in enumerate(value):
            yield from leaves(one, f"{place}[{number}]")
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        yield place, float(value) if is_number and isfinite(value) else value


def test_the_size_of_an_answer_is_told_before_the_work(client, models, monkeypatch) -> None:
    """So a program that cannot take it is refused at once: by HTTP, where it is too much for
    JSON."""
    client.load(models["activations"], exact("cpu"))
    service = serve(client)
    wanted = ReadActivations(("embedding", "layers.1.attention.heads"), 2)
    sizes: list[int] = []
    with elsewhere(client.engine.service) as engine:
        engine.submit(Generate(HELLO, FEW)).result(PATIENCE)
        held = engine.held
        assert held is not None
        found = service.ask(held.response, wanted, check=sizes.append)
        assert sizes == [sum(rows.size for rows in found.values.values())]
        ran: list[object] = []
        monkeypatch.setattr(activations, "record", lambda *given, **more: ran.append(given))
        monkeypatch.setattr(questions, "MOST_IN_JSON", sizes[0] - 1)
        query = {"response": held.response, **wire.query_of(named("activations"), wanted)}
        path = f"/inspect/activations?{urlencode(query)}"
        with pytest.raises(RequestError, match=f"expected npz for {sizes[0]:,} numbers, found"):
            engine.client.fetch("GET", path, None, Exchange(), PATIENCE, 1 << 20)
    assert ran == []


@pytest.mark.parametrize("name", ["scores", "effect", "activations", "patch"])
def test_a_request_comes_back_from_its_parameters(name: str) -> None:
    question = named(name)
    texts = wire.query_of(question, question.example)
    assert wire.request_of(question, texts) == question.example


def test_what_a_question_does_not_take() -> None:
    with pytest.raises(RequestError, match=r"^question: expected activations, lens"):
        named("nothing")
    with pytest.raises(RequestError, match=r"^depth: lens takes position, count"):
        wire.request_of(named("lens"), {"depth": 3})
    with pytest.raises(RequestError, match=r"^position: lens needs it"):
        wire.request_of(named("lens"), {})
    with pytest.raises(RequestError, match=r"^position: expected a whole number"):
        wire.request_of(named("lens"), {"position": "far"})


def test_an_answer_of_arrays_comes_back() -> None:
    question = named("activations")
    answer = question.answer(3, {"logits": np.ones((2, 5), np.float32)})
    found = wire.answer_of_arrays(question, wire.arrays_of(answer))
    assert found.first == 3 and found.values["logits"].shape == (2, 5)
    ones, first = np.ones(2, np.float32), np.array(3)
    for arrays, sentence in (
        ({"logits": ones}, "expected first, found logits"),
        ({"first": np.array("x"), "logits": ones}, "first: expected a whole number, found 'x'"),
        ({"first": first, "logits": np.ones(2)}, "logits: expected float32, found float64"),
        ({"first": np.ones(2), "logits": ones}, "array of size 1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            wire.answer_of_arrays(question, arrays)


def test_numbers_in_json_have_as_many_digits_as_count() -> None:
    small = np.array([1.23456789e-7, -0.0123456789, 0, 123456789, np.nan, np.inf], np.float32)
    assert wire.plain({"found": small}) == {
        "found": [1.234568e-7, -0.01234568, 0.0, 123456800.0, None, None]
    }
    assert wire.plain(np.arange(3, dtype=np.uint16)) == [0, 1, 2]


def test_a_session_traces_as_its_runner_does(models: dict[str, Path]) -> None:
    with running(models["trace"], exact("cpu")) as runner:
        runner.session.prefill((5, 6, 7, 8))
        request = named("trace").example
        bare = replay(runner.session).trace(request)
        found = asked(request, runner).trace
    assert bare.opened == found.opened and bare.growth == found.growth
    assert bare.texts == () and len(found.texts) == len(found.tokens)
