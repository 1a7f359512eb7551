"""Every object and event of /v1/responses beside the types of the Open Responses specification."""

import json
import time

import httpx2 as httpx
import openresponses_types as spec
import pytest
from pydantic import BaseModel

from llm_lite.server.schema import IGNORED

TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}
FORM = {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {}}}
REQUESTS = {
    "a text": {},
    "options": {"temperature": 0.5, "top_p": 0.25, "presence_penalty": 1, "frequency_penalty": 2},
    "a limit": {"max_output_tokens": 2},
    "no limit": {"max_output_tokens": -1},
    "thoughts": {"reasoning": {"effort": "high", "summary": "auto"}},
    "a call": {"tools": [TOOL]},
    "a call that is demanded": {"tools": [TOOL, {**TOOL, "name": "b"}], "tool_choice": "required"},
    "a call of one": {"tools": [TOOL], "tool_choice": {"type": "function", "name": "weather"}},
    "a call that a limit cuts": {
        "tools": [TOOL],
        "tool_choice": "required",
        "max_output_tokens": 2,
    },
    "one of some": {
        "tools": [{**TOOL, "name": "b"}, TOOL],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "weather"}],
        },
    },
    "no call": {"tools": [TOOL], "tool_choice": "none", "parallel_tool_calls": False},
    "a schema": {"text": {"format": FORM}},
    "an object": {"text": {"format": {"type": "json_object"}}},
    "likelihoods": {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    "whose": {"metadata": {"a": "b"}, "user": "u", "prompt_cache_key": "k", "instructions": "Go."},
    "a failure": {},
}
CUT = {"a limit", "a call that a limit cuts"}
# The specification has response.reasoning.delta where OpenAI's service, its clients and other
# servers (vLLM, llama.cpp) have this name.
_RENAMED = {"response.reasoning_text.delta": "response.reasoning.delta"}
_RENAMED |= {"response.reasoning_text.done": "response.reasoning.done"}


def kinds():
    """The class of each event, by its type."""
    for name, kind in vars(spec.types).items():
        if name.endswith("StreamingEvent") and issubclass(kind, BaseModel):
            values = kind.model_fields["type"].annotation
            yield next(iter(values)).value, kind


KINDS = dict(kinds())


def checked(response):
    """A response, valid by the specification, whose generated type takes no schema but null."""
    form = response["text"]["format"]
    told = {**response, "text": {"format": {**form, "schema": None}}}
    return spec.types.ResponseResource.model_validate(told)


def ask(served, **body):
    return httpx.post(f"{served.url}/v1/responses", json={"input": "hello", **body}, timeout=20)


def events_of(served, **body):
    lines = ask(served, stream=True, **body).text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


@pytest.fixture(params=REQUESTS)
def asked(request, serve):
    fails = {"fail_after": 2, "delay": 0.02} if request.param == "a failure" else {}
    thinks = request.param == "thoughts"
    return serve(thinks=thinks, **fails), REQUESTS[request.param], request.param


def test_a_response_is_valid(asked):
    served, body, name = asked
    if name == "a failure":
        assert ask(served, **body).status_code == 503
        return
    made = ask(served, **body).json()
    checked(made)
    used = served.service.requests[-1].sampling
    assert (made["temperature"], made["top_p"]) == (used.temperature, used.top_p)
    assert made["presence_penalty"] == used.presence_penalty
    assert made["frequency_penalty"] == used.frequency_penalty
    assert made["status"] == ("incomplete" if name in CUT else "completed")
    assert (made["completed_at"] is None) == (name in CUT)
    assert made["max_output_tokens"] == (2 if name in CUT else None)
    assert made["tools"] == body.get("tools", [])
    assert made["tool_choice"] == body.get("tool_choice", "auto")


def test_every_event_is_valid(asked):
    served, body, name = asked
    events = events_of(served, **body)
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        kind = _RENAMED.get(event["type"], event["type"])
        if "response" in event:
            checked(event["response"])
            form = event["response"]["text"]["format"]
            event["response"]["text"]["format"] = {**form, "schema": None}
        told = {**event, "type": kind}
        made = KINDS[kind].model_validate(told)
        missing = set(KINDS[kind].model_fields) - set(told) - {"obfuscation", "logprobs"}
        assert not missing, (made, missing)
    end = "failed" if name == "a failure" else "incomplete" if name in CUT else "completed"
    assert events[-1]["type"] == f"response.{end}"
    assert len(KINDS) > 20


def test_the_items_of_a_stream_are_those_of_the_response(asked):
    served, body, name = asked
    events = events_of(served, **body)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    states = {item["status"] for item in done}
    assert states <= ({"incomplete", "completed"} if name in CUT else {"completed"})


LEFT_OUT = {  # as agents send them
    "tools": [
        {"type": "web_search", "search_context_size": "medium"},
        {"type": "mcp", "server_label": "x", "server_url": "https://x"},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark"}},
        TOOL,
        {"type": "web_search"},
    ],
    "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
}
HISTORY = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be it."}]},
    {"type": "message", "role": "user", "content": "weather?"},
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
    {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "I look."}],
    },
    {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}", "status": "x"},
    {"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "*** Begin"},
    {"type": "function_call", "call_id": "b", "name": "weather", "arguments": '{"city": "B"}'},
    {"type": "custom_tool_call_output", "call_id": "p", "output": "done"},
    {"role": "user", "content": "Be quick."},
    {"type": "function_call_output", "call_id": "b", "output": "sun"},
    {
        "type": "function_call_output",
        "call_id": "a",
        "output": [{"type": "input_text", "text": "r"}],
    },
    {"type": "item_reference", "id": "msg_1"},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
    {"type": "message", "role": "assistant", "status": "completed", "content": "Rain."},
    {"role": "user", "content": "And now?"},
]


def test_what_other_servers_run_is_left_out_and_named(serve):
    served = serve(script=lambda request: "Rain still.")
    answer = ask(served, input=HISTORY, **LEFT_OUT)
    assert answer.status_code == 200
    made = checked(answer.json())
    assert [tool.root.name for tool in made.tools] == ["weather"]
    assert answer.headers[IGNORED].split(", ") == [
        *("tools.web_search", "tools.mcp", "tools.custom"),
        *("input.web_search_call", "input.custom_tool_call", "input.custom_tool_call_output"),
        *("input.item_reference", "include.web_search_call.action.sources"),
    ]
    told = served.service.requests[-1]
    assert [tool.name for tool in told.tools] == ["weather"]
    assert [(m.role, m.content, m.thought, len(m.calls)) for m in told.messages] == [
        ("system", "Be it.", "", 0),
        ("user", "weather?", "", 0),
        ("assistant", "", "I look.", 2),
        ("tool", "r", "", 0),
        ("tool", "sun", "", 0),
        ("user", "Be quick.", "", 0),
        ("assistant", "Rain.", "", 0),
        ("user", "And now?", "", 0),
    ]


def test_a_call_id_that_comes_twice_loses_no_call(serve):
    """Some clients number the calls of each turn anew, or leave all of them with one id."""
    served = serve(script=lambda request: "Done.")
    items = [{"role": "user", "content": "weather?"}]
    for city, result in (("A", None), ("B", "sun"), ("C", "rain")):
        arguments = json.dumps({"city": city})
        items.append(
            {"type": "function_call", "call_id": "x", "name": "weather", "arguments": arguments}
        )
        if result:
            items.append({"type": "function_call_output", "call_id": "x", "output": result})
    assert ask(served, input=items).status_code == 200
    told = served.service.requests[-1].messages
    calls = [json.loads(call.arguments)["city"] for message in told for call in message.calls]
    assert calls == ["A", "B", "C"]
    assert [m.content for m in told if m.role == "tool"] == ["sun", "rain"]


NAMESPACE = {  # as Codex sends the tools of an MCP server
    "type": "namespace",
    "name": "mcp__x",
    "description": "Of x.",
    "tools": [{**TOOL, "name": "other"}, TOOL, {"type": "custom", "name": "c"}],
}


@pytest.mark.parametrize("stream", [False, True])
def test_functions_of_a_namespace_are_called_by_both_names(serve, stream):
    served = serve()
    tools = [NAMESPACE, TOOL]
    if stream:
        events = events_of(served, tools=tools)
        made = events[-1]["response"]
        (added,) = (e["item"] for e in events if e["type"] == "response.output_item.added")
        assert (added["namespace"], added["name"]) == ("mcp__x", "other")
    else:
        answer = ask(served, tools=tools)
        made = answer.json()
        assert answer.headers[IGNORED] == "tools.namespace.custom"
    told = served.service.requests[-1]
    assert [tool.name for tool in told.tools] == ["mcp__x.other", "mcp__x.weather", "weather"]
    assert [tool.name for tool in map(spec.types.FunctionTool.model_validate, made["tools"])] == [
        "weather"
    ]
    (call,) = made["output"]
    assert (call["namespace"], call["name"]) == ("mcp__x", "other")
    said = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    again = ask(served, tools=tools, input=[{"role": "user", "content": "x"}, call, said])
    checked(again.json())
    calls = served.service.requests[-1].messages[1].calls
    assert [one.name for one in calls] == ["mcp__x.other"]


def test_only_functions_that_are_allowed_are_offered(serve):
    served = serve()
    tools = [TOOL, {**TOOL, "name": "other"}]
    for mode in ("auto", "required"):
        chosen = {
            "type": "allowed_tools",
            "mode": mode,
            "tools": [{"type": "function", "name": "other"}],
        }
        (call,) = ask(served, tools=tools, tool_choice=chosen).json()["output"]
        assert call["name"] == "other"
    form = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "other"}}]}
    wrapped = [{"type": "function", "function": tool} for tool in tools]
    chat = {
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "custom", "custom": {"name": "x"}}, *wrapped],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": form},
    }
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=chat)
    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "other"
    assert answer.headers[IGNORED] == "tools.custom"
    chosen = {"type": "allowed_tools", "mode": "required", "tools": []}
    assert ask(served, tools=tools, tool_choice=chosen).status_code == 400


def test_times_are_those_of_the_answer(serve):
    before = int(time.time())
    made = checked(ask(serve()).json())
    assert before <= made.created_at <= made.completed_at <= time.time()
