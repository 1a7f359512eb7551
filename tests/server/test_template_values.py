"""Values of a chat template's variables: they reach it, and what it does not read is named."""

import httpx2 as httpx
import pytest
from msgspec.structs import replace

from tests.server.test_ignored_fields import IGNORED, USER

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


@pytest.fixture
def reading(serve):
    """A server whose template reads how much to think, and documents."""
    served = serve()
    known = served.service._model
    variables = ("messages", "reasoning_effort", "documents", "enable_thinking")
    served.service._model = replace(known, template_variables=variables, switches_thinking=True)
    return served


def ask(served, path=CHAT, **more):
    said = {"messages": USER} if path == CHAT else {"input": "hello"}
    return httpx.post(served.url + path, json={**said, **more})


def told(served):
    return served.service.requests[-1]


def test_an_effort_and_other_values_reach_the_template(reading):
    documents = [{"title": "a", "text": "b"}]
    answer = ask(
        reading, reasoning_effort="high", chat_template_kwargs={"documents": documents, "x": None}
    )
    assert answer.status_code == 200 and IGNORED not in answer.headers
    assert told(reading).values == {"reasoning_effort": "high", "documents": documents}
    assert ask(reading, RESPONSES, reasoning={"effort": "low"}).status_code == 200
    assert told(reading).values == {"reasoning_effort": "low"}
    assert told(reading).thinking


def test_a_value_by_the_name_of_the_variable_holds(reading):
    ask(reading, reasoning_effort="high", chat_template_kwargs={"reasoning_effort": "deep"})
    assert told(reading).values == {"reasoning_effort": "deep"}


@pytest.mark.parametrize("effort", ["none", "minimal"])
def test_no_effort_is_no_thinking(reading, effort):
    ask(reading, reasoning_effort=effort)
    assert not told(reading).thinking
    ask(reading, reasoning_effort=effort, chat_template_kwargs={"enable_thinking": True})
    assert told(reading).thinking


def test_what_the_template_does_not_read_is_named(reading, serve):
    kwargs = {"documents": [], "custom": 1, "messages": []}
    answer = ask(reading, chat_template_kwargs=kwargs, other=1)
    named = "other, chat_template_kwargs.custom, chat_template_kwargs.messages"
    assert answer.headers[IGNORED] == named
    plain = serve()
    kwargs = {"enable_thinking": False}
    answer = ask(plain, reasoning_effort="low", chat_template_kwargs=kwargs, stream=True)
    named = "reasoning_effort, chat_template_kwargs.enable_thinking"
    assert answer.headers[IGNORED] == named
    answer = ask(plain, RESPONSES, reasoning={"effort": "low"})
    assert answer.headers[IGNORED] == "reasoning.effort"
    assert IGNORED not in ask(plain, chat_template_kwargs={}).headers


def test_a_switch_is_true_or_false(reading):
    answer = ask(reading, chat_template_kwargs={"enable_thinking": "no"})
    assert answer.status_code == 400
    problem = "chat_template_kwargs.enable_thinking: expected true or false, found a text"
    assert problem in answer.json()["error"]["message"]


def test_a_prompt_is_counted_as_the_template_writes_it_with_values(reading):
    def tokenize(**more):
        return httpx.post(f"{reading.url}/tokenize", json={"messages": USER, **more})

    values = {"documents": [{"text": "b"}], "enable_thinking": False, "custom": 1}
    answer = tokenize(reasoning_effort="high", chat_template_kwargs=values)
    assert answer.status_code == 200
    assert answer.headers[IGNORED] == "chat_template_kwargs.custom"
    asked = {"reasoning_effort": "high", "documents": [{"text": "b"}], "custom": 1}
    assert reading.service.asked_values[-1] == (False, asked)
    assert tokenize(reasoning_effort="none").status_code == 200
    assert reading.service.asked_values[-1][0] is False
    assert tokenize(chat_template_kwargs={"enable_thinking": 1}).status_code == 400
    assert IGNORED not in tokenize().headers
    text = {"content": "Hi", "reasoning_effort": "low", "chat_template_kwargs": {}}
    answer = httpx.post(f"{reading.url}/tokenize", json=text)
    assert answer.headers[IGNORED] == "reasoning_effort, chat_template_kwargs"
