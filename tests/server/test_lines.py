"""Streams by readers for whom other characters than line feeds end a line."""

import json

import httpx2 as httpx
import pytest

ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # for Python's splitlines, beside \r and \n
SAID = "".join(f"{number}{end}" for number, end in enumerate(ENDS)) + "\r\n."
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": SAID}]},
    "/v1/completions": {"prompt": SAID, "echo": True, "max_tokens": -1},
    "/v1/responses": {"input": SAID, "instructions": SAID},
}
TOOL = {"name": "f", "parameters": {"properties": {"a": {"const": SAID}}}}


def text_of(event):
    if "choices" in event:
        (choice,) = event["choices"]
        return choice.get("text") or choice.get("delta", {}).get("content") or ""
    return event.get("delta", "")


def events_of(served, path, **more):
    """What httpx, and OpenAI's older clients by it, read of a stream."""
    body = {**BODIES[path], **more, "stream": True}
    with httpx.stream("POST", f"{served.url}{path}", json=body) as made:
        lines = [line for line in made.iter_lines() if line]
    assert all(line.startswith(("data: ", "event: ", ": ")) for line in lines)
    data = [line[6:] for line in lines if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


@pytest.mark.parametrize("path", BODIES)
def test_every_end_of_a_line_is_escaped(served, path):
    said = "".join(map(text_of, events_of(served, path)))
    assert said == f"{SAID if path == '/v1/completions' else ''}You said: {SAID}"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_so_are_those_of_calls(served, path):
    tool = {"type": "function", **(TOOL if "responses" in path else {"function": TOOL})}
    events = events_of(served, path, tools=[tool], tool_choice="required")
    if path == "/v1/responses":
        (call,) = events[-1]["response"]["output"]
        assert json.loads(call["arguments"]) == {"a": SAID}
    else:
        calls = [c for e in events for c in e["choices"][0]["delta"].get("tool_calls", ())]
        assert json.loads("".join(c["function"]["arguments"] for c in calls)) == {"a": SAID}


def test_so_is_a_failure(serve):
    served = serve(fail_after=5, delay=0.02)
    served.service.failure = f"the file a{ENDS} fails here"
    events = events_of(served, "/v1/chat/completions")
    assert events[-1]["error"]["message"].endswith("fails here")
