"""Public reports of other servers, tried here: what each sent, and what it should have had."""

import json

import httpx2 as httpx
import pytest

from llm_lite.server.schema import IGNORED

USER = {"role": "user", "content": "hello"}
CALL = {"id": "a", "type": "function", "function": {"name": "view_image", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
SEEN = {"type": "input_image", "image_url": "data:image/png;base64,AA"}
TOOLS = [{"type": "function", "function": {"name": "view_image", "parameters": {}}}]


def ask(served, **body):
    return httpx.post(f"{served.url}/v1/chat/completions", json=body)


def respond(served, **body):
    return httpx.post(f"{served.url}/v1/responses", json=body)


def told(served):
    return [(one.role, one.content) for one in served.service.requests[-1].messages]


def test_an_image_that_a_tool_gave_does_not_end_the_conversation(served):
    """llama.cpp 23380, 23465 and 23542: Codex's view_image made each later request a 400."""
    parts = [{"type": "text", "text": "a.png: "}, IMAGE]
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": parts},
    ]
    made = ask(served, messages=messages)
    assert (made.status_code, made.headers[IGNORED]) == (200, "messages.image_url")
    assert told(served)[-1] == (
        "tool",
        "a.png: [The tool gave image_url, which cannot be read here.]",
    )
    call = {"type": "function_call", "call_id": "a", "name": "view_image", "arguments": "{}"}
    items = [USER, call, {"type": "function_call_output", "call_id": "a", "output": [SEEN]}]
    made = respond(served, input=items)
    assert (made.status_code, made.headers[IGNORED]) == (200, "input.input_image")
    assert told(served)[-1] == ("tool", "[The tool gave input_image, which cannot be read here.]")


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {"content": []}, {}])
def test_an_assistants_message_may_be_empty(served, content):
    """LM Studio 261, mlx-openai-server 205 and freellmapi 165: null or empty content was refused,
    or the message and its calls were dropped."""
    answered = {"role": "tool", "tool_call_id": "a", "content": "rain"}
    for more, last in (({"tool_calls": [CALL]}, answered), ({}, USER)):
        made = ask(served, messages=[USER, {"role": "assistant", **content, **more}, last])
        assert made.status_code == 200
        assistant = served.service.requests[-1].messages[1]
        assert (assistant.role, assistant.content, len(assistant.calls)) == (
            "assistant",
            "",
            len(more),
        )


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_no_tools_are_no_error_beside_a_choice(served, choice):
    """gLLM 267: `tools: []` with `tool_choice: auto` was refused."""
    assert ask(served, messages=[USER], tools=[], tool_choice=choice).status_code == 200
    assert respond(served, input="hello", tools=[], tool_choice=choice).status_code == 200


@pytest.mark.parametrize(
    "parameters",
    [
        {
            "type": "object"
        },  # github-mcp-server 1548, mcphost 88: "object schema missing properties"
        None,  # karakeep 1831: "None is not of type 'object'"
        {},  # collmbo 384
        {"type": "object", "properties": {"a": {"type": "array"}}},  # spacectl 402: without items
    ],
)
def test_schemas_of_tool_servers_that_openai_refuses(served, parameters):
    function = {"name": "get_me", "parameters": parameters}
    made = ask(served, messages=[USER], tools=[{"type": "function", "function": function}])
    assert made.status_code == 200
    assert made.json()["choices"][0]["finish_reason"] == "tool_calls"


def test_thoughts_without_what_followed_them(served):
    """codex 1235: a reasoning item whose following item is gone was refused."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    for items in ([USER, thought], [thought, USER], [USER, thought, thought, USER]):
        assert respond(served, input=items).status_code == 200


def test_every_chunk_has_a_choice_with_its_index_or_the_usage(served):
    """Zed (deeperseeker 8): a choice without `index`; langwatch 700 and opencode 42918: chunks of
    no known form end clients of the AI SDK."""
    body = {"messages": [USER], "stream": True, "stream_options": {"include_usage": True}}
    data = [line[6:] for line in ask(served, **body).text.splitlines() if line.startswith("data: ")]
    *chunks, usage, done = data
    assert done == "[DONE]"
    for chunk in map(json.loads, chunks):
        assert chunk["id"] and chunk["model"] and chunk["object"] == "chat.completion.chunk"
        assert [choice["index"] for choice in chunk["choices"]] == [0]
    last = json.loads(usage)
    assert last["choices"] == [] and last["id"] and last["usage"]["total_tokens"] > 0


def test_parts_of_an_assistants_message_that_another_server_marked(served):
    """LangChain's content blocks and Mistral's: a thought as a part of what was said."""
    parts = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Rain."}]
    assistant = {"role": "assistant", "content": parts}
    made = ask(served, messages=[USER, assistant, USER])
    assert (made.status_code, made.headers[IGNORED]) == (200, "messages.reasoning")
    assert told(served)[1] == ("assistant", "Rain.")
    made = respond(served, input=[USER, assistant, USER])
    assert (made.status_code, made.headers[IGNORED]) == (200, "input.reasoning")
    assert told(served)[1] == ("assistant", "Rain.")
    for asked in (
        ask(served, messages=[{**USER, "content": parts}]),
        respond(served, input=[{**USER, "content": parts}]),
    ):
        assert asked.status_code == 400  # what a person has said is all read, or refused
