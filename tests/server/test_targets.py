"""An encoder-decoder behind the server, by OpenAI's own client: targets, one at a time."""

from __future__ import annotations

import threading

import httpx2 as httpx
import numpy as np
import openai
import pytest

from llm_lite.core.errors import BusyError, RequestError
from llm_lite.core.generation.translation import encode_source, target_text
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    Ended,
    Generate,
    ReadAttentionRows,
    SamplingOptions,
)
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.arrays import npz_arrays
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.engine import RemoteEngine
from llm_lite.core.serving.direct_services import TargetService
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked as asked_of
from tests.children import PATIENCE
from tests.fixtures.seq2seq import marian, t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case
from tests.server.sockets import wait_until

SOURCE, TOKENS = "Where is the station?", 9
FEW = SamplingOptions(max_new_tokens=8)


@pytest.fixture(scope="module", params=[(t5.FAMILY, "gated"), (marian.FAMILY, "plain")])
def runner(request, tmp_path_factory):
    path = write_case(*request.param, tmp_path_factory.mktemp("model"))
    with running(path, exact("cpu")) as made:
        yield made


@pytest.fixture
def service(runner):
    made = TargetService(runner, most_waiting=8)
    yield made
    made.close()


@pytest.fixture
def server(service):
    served = Server(lambda: service, ServerConfig(port=0))
    served.start()
    yield served
    served.stop()


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


def wanted(runner, text, most=TOKENS):
    """The target, without a server."""
    translator, tokenizer = translator_of(runner), runner.model_file.tokenizer
    ids = encode_source(tokenizer, text, runner.session.context)
    translator.read_source(ids)
    target = translator.whole(translator.options(0, most))
    return ids, target, plain(target_text(tokenizer, target.tokens))


def plain(text):
    """Half a character at the end of what was cut by its length is not told."""
    return text.strip().rstrip("\N{REPLACEMENT CHARACTER}")


def test_a_target_is_the_translators_whole_and_in_pieces(client, runner):
    ids, target, text = wanted(runner, SOURCE)
    asked = {"model": "m", "prompt": SOURCE, "max_tokens": TOKENS}
    whole = client.completions.create(**asked, logprobs=2)
    assert plain(whole.choices[0].text) == text
    assert whole.usage.prompt_tokens == len(ids)
    assert whole.usage.completion_tokens == len(target.tokens)
    assert len(whole.choices[0].logprobs.tokens) == len(target.tokens)
    ended = target.tokens[-1] in runner.model_file.tokenizer.end_ids
    assert whole.choices[0].finish_reason == ("stop" if ended else "length")
    pieces = [one.choices[0].text for one in client.completions.create(**asked, stream=True)]
    assert plain("".join(pieces)) == text
    by_tokens = client.completions.create(**asked | {"prompt": ids})
    assert plain(by_tokens.choices[0].text) == text


def test_of_a_chat_the_last_message_is_the_source(client, runner):
    _, _, text = wanted(runner, SOURCE)
    messages = [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "it"},
        {"role": "user", "content": SOURCE},
    ]
    found = client.chat.completions.create(model="m", messages=messages, max_tokens=TOKENS)
    assert plain(found.choices[0].message.content) == text
    with pytest.raises(openai.BadRequestError, match="the last message has the role assistant"):
        client.chat.completions.create(model="m", messages=messages[:2])


def test_many_clients_take_turns(client, runner, service):
    sources = [f"Where is {name}?" for name in ("it", "she", "the cat", "Rome")]
    alone = [wanted(runner, one)[2] for one in sources]
    found: list[object] = [None] * len(sources)

    def ask(index: int) -> None:
        told = client.completions.create(model="m", prompt=sources[index], max_tokens=TOKENS)
        found[index] = plain(told.choices[0].text)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(sources))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone
    wait_until(lambda: not service.status().requests)  # the last is counted behind its last event
    status = service.status()
    assert (status.finished, status.parallel, status.requests) == (len(sources), 1, ())
    assert status.new_tokens > 0


def test_a_target_ends_before_a_stop_string(client, runner):
    _, _, text = wanted(runner, SOURCE)
    stop = text[len(text) // 2]
    found = client.completions.create(model="m", prompt=SOURCE, max_tokens=TOKENS, stop=stop)
    assert plain(found.choices[0].text) == plain(text[: text.index(stop)])
    assert found.choices[0].finish_reason == "stop"


def test_what_cannot_be_is_one_sentence(client, server, runner):
    context = runner.session.context
    with pytest.raises(openai.BadRequestError, match=f"expected 1 to {context}"):
        client.completions.create(model="m", prompt=[5] * (context + 1))
    with pytest.raises(openai.BadRequestError, match="token 9999999 is not in the vocabulary"):
        client.completions.create(model="m", prompt=[9_999_999])
    with pytest.raises(openai.BadRequestError, match="keeps to no schema or grammar"):
        schema = {"json_schema": {"type": "object"}}
        client.completions.create(model="m", prompt=SOURCE, extra_body=schema)
    with pytest.raises(openai.BadRequestError, match="is an encoder-decoder, which writes a"):
        client.embeddings.create(model="m", input="Hello")
    assert httpx.get(f"{server.address}/health").status_code == 200


def test_a_target_is_changed_by_no_intervention(client, server, runner):
    """One sentence, wherever it is asked for."""
    change = {"kind": "scale", "site": "decoder.layers.0.feed_forward.down", "factor": 0}
    body = {"model": "m", "prompt": SOURCE, "interventions": [change]}
    told = httpx.post(f"{server.address}/v1/completions", json=body)
    sentence = "while it writes, as an encoder-decoder searches its targets in beams"
    assert told.status_code == 400 and sentence in told.text
    with pytest.raises(RequestError, match=f"its layers are not shifted {sentence}"):
        runner.enable_shifts()


def test_what_waits_when_the_service_closes_is_told_so(runner):
    """And no more wait than may."""
    service, told, begun, free = TargetService(runner, 1), [], threading.Event(), threading.Event()

    def hold(event: object) -> None:
        begun.set()
        assert free.wait(PATIENCE)
        told.append(event)

    service.submit(AnswerRequest("a", text=SOURCE), hold)
    assert begun.wait(PATIENCE)
    waiting = service.submit(AnswerRequest("b", text=SOURCE), told.append)
    with pytest.raises(BusyError, match="1 requests wait already"):
        service.submit(AnswerRequest("c", text=SOURCE), told.append)
    waiting.cancel()
    another = service.submit(AnswerRequest("d", text=SOURCE), told.append)  # in its place
    assert len(service.status().requests) == 2
    another.cancel()
    free.set()
    service.close()
    ends = [event.stop_reason for event in told if hasattr(event, "stop_reason")]
    assert len(ends) == 3 and ends[1:] == ["stopped", "stopped"]
    status = service.status()
    assert status.cancelled >= 2 and status.refused == 1
    assert status.prompt_tokens == len(wanted(runner, SOURCE)[0]), "of the one that was read"
    with pytest.raises(RequestError, match="serving has ended"):
        service.submit(AnswerRequest("e", text=SOURCE), told.append)


def response_types(events):
    return [event.type.removeprefix("response.") for event in events]


def test_a_target_is_a_response_whole_and_in_pieces(client, runner):
    ids, target, text = wanted(runner, SOURCE)
    asked = {"model": "m", "input": SOURCE, "max_output_tokens": TOKENS}
    whole = client.responses.create(**asked, include=["message.output_text.logprobs"])
    ended = target.tokens[-1] in runner.model_file.tokenizer.end_ids
    assert plain(whole.output_text) == text
    assert whole.status == ("completed" if ended else "incomplete")
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (len(ids), len(target.tokens))
    (message,) = whole.output
    assert len(message.content[0].logprobs) == len(target.tokens) - ended
    events = list(client.responses.create(**asked, stream=True))
    told = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert plain("".join(told)) == text
    assert response_types(events)[:3] == ["created", "in_progress", "output_item.added"]
    assert response_types(events)[-2:] == ["output_item.done", whole.status]
    assert plain(events[-1].response.output_text) == text


def test_of_a_responses_conversation_the_last_message_is_the_source(client, runner):
    _, _, text = wanted(runner, SOURCE)
    said = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "it"}]
    asked = {"model": "m", "max_output_tokens": TOKENS, "instructions": "Be brief."}
    found = client.responses.create(**asked, input=[*said, {"role": "user", "content": SOURCE}])
    assert plain(found.output_text) == text
    with pytest.raises(openai.BadRequestError, match="the last message has the role assistant"):
        client.responses.create(**asked, input=said)
    with pytest.raises(openai.BadRequestError, match="keeps to no schema or grammar"):
        client.responses.create(**asked, input=SOURCE, text={"format": {"type": "json_object"}})


def test_a_response_ends_with_its_client(client, service):
    with client.responses.create(model="m", input=SOURCE, stream=True) as stream:
        assert next(iter(stream)).type == "response.created"
    wait_until(lambda: not service.status().requests)
    assert service.status().failed == 0
    after = client.responses.create(model="m", input=SOURCE, max_output_tokens=2)
    assert after.usage.output_tokens == 2


def test_functions_are_refused_with_a_sentence(client):
    declared = {"name": "look", "parameters": {"type": "object"}}
    refused = "tools: .* is an encoder-decoder, which calls no functions"
    with pytest.raises(openai.BadRequestError, match=refused):
        client.responses.create(model="m", input=SOURCE, tools=[{"type": "function", **declared}])
    messages = [{"role": "user", "content": SOURCE}]
    tools = [{"type": "function", "function": declared}]
    with pytest.raises(openai.BadRequestError, match=refused):
        client.chat.completions.create(model="m", messages=messages, tools=tools)
    asked = {"model": "m", "messages": messages, "tools": tools, "tool_choice": "none"}
    assert client.chat.completions.create(**asked, max_tokens=2).usage.completion_tokens == 2


def test_without_a_queue_one_target_at_a_time_is_written(runner):
    service, told, ended = TargetService(runner, most_waiting=0), [], threading.Event()

    def hear(event: object) -> None:
        told.append(event)
        if isinstance(event, Ended):
            ended.set()

    service.submit(AnswerRequest("a", text=SOURCE), hear)
    assert ended.wait(PATIENCE)
    service.close()
    assert told[-2].stop_reason in ("end", "length")


def test_questions_about_a_target(client, server, runner, service):
    """By its id, of the source and the target, as of the model itself; the text is read again."""
    ids, target, _ = wanted(runner, SOURCE)
    made = client.completions.create(model="m", prompt=SOURCE, max_tokens=TOKENS)
    client.completions.create(model="m", prompt="Who is she?", max_tokens=2)
    start = translator_of(runner).start
    held = httpx.get(f"{server.address}/inspect/cache", params={"response": made.id}).json()
    assert held["tokens"] == [start, *target.tokens[:-1]] and held["source"] == ids
    sites = ("encoder.embedding", "decoder.layers.1.cross_attention.k", "lm_head")
    asked = {"response": made.id, "sites": ",".join(sites), "format": "npz"}
    raw = httpx.get(f"{server.address}/inspect/activations", params=asked).content
    found = npz_arrays(raw)
    runner.read_source(ids)
    translator_of(runner).read_target(target.tokens[:-1])
    expected = asked_of(ReadActivations(sites), runner).values
    for name in sites:
        np.testing.assert_array_equal(found[name], expected[name])
    maps = {"response": made.id, "layer": 1, "format": "npz"}
    raw = httpx.get(f"{server.address}/inspect/attention", params=maps).content
    weights = npz_arrays(raw)["attention"]
    assert weights.shape[1:] == (len(held["tokens"]),) * 2
    np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-5)
    gone = httpx.get(f"{server.address}/inspect/lens", params={"response": "cmpl-x"})
    assert gone.status_code == 404 and "nothing of the name cmpl-x" in gone.text


def test_a_window_elsewhere_asks_about_a_target(server):
    """Through the client of another llm-lite."""
    client = Client(read_address(server.address), ApiKey())
    told = connect(client, Exchange())
    engine = RemoteEngine(client, told, told.models[0])
    sites = ("encoder.layers.0.attention.heads", "decoder.layers.0.attention.heads")
    try:
        engine.submit(Generate((ChatMessage("user", SOURCE),), FEW)).result(PATIENCE)
        held = engine.held
        assert held is not None
        found = engine.submit(ReadActivations(sites)).result(PATIENCE)
        rows = engine.submit(ReadAttentionRows(1, "from", "layer-mean")).result(PATIENCE)
    finally:
        engine.close()
    assert [len(found.values[name]) for name in sites] == [held.source, len(held.tokens)]
    assert len(rows.weights) == len(held.tokens)
