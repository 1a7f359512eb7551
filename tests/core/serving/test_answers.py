"""Answers of a server: the same alone and together, and everything told of them."""

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ChatMessage, ServingChanged, StopServing
from tests.core.serving.clients import Asked, serve
from tests.make_gguf import write_tiny_llama
from tests.runners import exact


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("served") / "tiny.gguf", context=512, seed=2)


def test_two_at_once_are_as_each_alone(client, model):
    client.load(model, exact())
    service = serve(client, parallel=2)
    prompts = [tuple(range(5, 20)), tuple(range(30, 200))]
    alone = [Asked(service, tokens=tokens).tokens() for tokens in prompts]
    together = [Asked(service, tokens=tokens) for tokens in prompts]
    assert [asked.tokens() for asked in together] == alone
    assert all(len(tokens) == 12 for tokens in alone)
    client.send(StopServing())
    assert not client.until(ServingChanged).is_on
    assert client.engine.service() is None
    with pytest.raises(RequestError, match="has ended"):
        Asked(service, tokens=(1, 2))


def test_a_conversation_is_as_in_the_chat(client, model):
    client.load(model, exact())
    service = serve(client, parallel=2)
    messages = (ChatMessage("user", "Hello there"),)
    asked = Asked(service, messages=messages)
    finished = asked.finished()
    chat, tokens = client.ask(1, messages)
    assert asked.tokens() == tokens
    assert finished.stop_reason == chat.stop_reason
    assert finished.stats.prompt_tokens == chat.stats.prompt_tokens
