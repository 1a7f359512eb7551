"""A call that a limit cuts: what there is of it is told, and that it is not whole."""

import json

import httpx2 as httpx
import pytest

from tests.server.test_tools import TIME, WEATHER

MESSAGES = [{"role": "user", "content": "weather?"}]
CALL = '{"name": "weather", "arguments": {"city": "Seoul"}}'
NAMED = {"type": "function", "function": {"name": "weather"}}
MARKED = f"<tool_call>\n{CALL}\n</tool_call>"
THOUGHTS = "<think>\nLet me"  # of a model that the limit leaves nothing but these
# What is asked, what the model writes, and how far it comes -> the arguments so far.
CUT = {
    "nothing of the named one": (NAMED, "", THOUGHTS, ""),
    "the named one": (NAMED, '{"city": "Seoul"}', '{"city": ', '{"city": '),
    "one of several, named": ("required", CALL, '{"name": "weather", "arg', ""),
    "one of several": ("required", CALL, CALL[:-9], '{"city": '),
    "one that is not demanded, named": ("auto", MARKED, '<tool_call>\n{"name": "weather", ', ""),
    "one that is not demanded": ("auto", MARKED, MARKED[:-21], '{"city": "'),
}
WHOLE = {
    "the named one": (NAMED, '{"city": "Seoul"}', '{"city": "Seoul"}'),
    "one of several": ("required", CALL, CALL),
    "one without the mark behind it": ("auto", MARKED, f"<tool_call>\n{CALL}"),
}


def ask(served, choice, until, **more):
    """The answer is cut behind the text `until`."""
    body = {"messages": MESSAGES, "tools": [WEATHER, TIME], "tool_choice": choice}
    body |= {"max_tokens": len(served.service.words.encode(until)), **more}
    return httpx.post(f"{served.url}/v1/chat/completions", json=body)


def chunks(answer):
    lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line)["choices"][0] for line in lines]


@pytest.mark.parametrize("case", CUT)
def test_it_is_told_as_far_as_it_came(serve, case):
    choice, text, until, expected = CUT[case]
    served = serve(script=lambda request: text, thinks=not text)
    told = ask(served, choice, until).json()["choices"][0]
    assert told["finish_reason"] == "length" and not told["message"]["content"]
    (call,) = told["message"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": expected}


@pytest.mark.parametrize("case", CUT)
def test_its_stream_says_the_same(serve, case):
    choice, text, until, expected = CUT[case]
    served = serve(script=lambda request: text, thinks=not text)
    told = chunks(ask(served, choice, until, stream=True))
    calls = [call for one in told for call in one["delta"].get("tool_calls", ())]
    assert [call["function"]["name"] for call in calls if "id" in call] == ["weather"]
    assert "".join(call["function"]["arguments"] for call in calls) == expected
    assert told[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("case", WHOLE)
def test_one_that_is_whole_at_the_limit_is_a_call(serve, case):
    choice, text, until = WHOLE[case]
    told = ask(serve(script=lambda request: text), choice, until).json()["choices"][0]
    assert told["finish_reason"] == "tool_calls"
    (call,) = told["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Seoul"}


def test_a_parameter_that_is_cut_is_no_argument(serve):
    """Of Qwen3-Coder's form, in which half a text looks like a whole one."""
    text = "<tool_call>\n<function=weather>\n<parameter=city>\nSeo ul</parameter></function>"
    served = serve(script=lambda request: text)
    for until in (text[:-40], text[:-24], text[:-18], text[:-1]):
        told = ask(served, "auto", until).json()["choices"][0]
        assert told["finish_reason"] == "length", until
    assert ask(served, "auto", text).json()["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("more", "kind", "status"),
    [
        ({"max_output_tokens": 2}, "message", "incomplete"),
        ({}, "message", "completed"),
        (
            {"max_output_tokens": 9, "tool_choice": {"type": "function", "name": "weather"}},
            "function_call",
            "incomplete",
        ),
        ({"tool_choice": {"type": "function", "name": "weather"}}, "function_call", "completed"),
    ],
)
def test_an_item_is_as_whole_as_its_response(served, more, kind, status, stream):
    tool = {"type": "function", **WEATHER["function"]}
    tools = [tool] if "tool_choice" in more else []
    body = {"input": "hello", "tools": tools, "stream": stream, **more}
    answer = httpx.post(f"{served.url}/v1/responses", json=body)
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.split("\n") if line[:6] == "data: "]
        made = events[-1]["response"]
        assert events[-1]["type"] == f"response.{status}"
        (done,) = [one for one in events if one["type"] == "response.output_item.done"]
        assert done["item"] == made["output"][-1]
    else:
        made = answer.json()
    assert made["status"] == status
    assert [(item["type"], item["status"]) for item in made["output"]] == [(kind, status)]


def test_thoughts_that_a_limit_cuts_are_incomplete(serve):
    served = serve(thinks=True)
    body = {"input": "hello", "max_output_tokens": len(served.service.words.encode(THOUGHTS))}
    made = httpx.post(f"{served.url}/v1/responses", json=body).json()
    assert [(item["type"], item["status"]) for item in made["output"]] == [
        ("reasoning", "incomplete")
    ]
