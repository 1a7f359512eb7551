"""What is asked of a server about the variables of its template."""

import pytest

from llm_lite.core.messages import ChatMessage, Generate
from llm_lite.core.remote.dialects import DIALECTS
from llm_lite.core.remote.request_body import build_request

HELLO = (ChatMessage("user", "Hi"),)
VALUES = {"reasoning_effort": "high", "documents": [{"text": "a"}]}


@pytest.mark.parametrize("name", DIALECTS)
def test_values_are_sent_and_can_be_done_without(name):
    asked = build_request(Generate(HELLO, values=VALUES), "m", DIALECTS[name])
    assert asked.body["reasoning_effort"] == "high"
    assert asked.body["chat_template_kwargs"] == {"documents": [{"text": "a"}]}
    assert {"reasoning_effort", "chat_template_kwargs"} <= set(asked.optional)
    plain = build_request(Generate(HELLO), "m", DIALECTS[name])
    assert not {"reasoning_effort", "chat_template_kwargs"} & plain.body.keys()


def test_no_thoughts_are_asked_for_beside_values():
    command = Generate(HELLO, thinking=False, values={"documents": []})
    asked = build_request(command, "m", DIALECTS["vllm"])
    assert asked.body["chat_template_kwargs"] == {"documents": [], "enable_thinking": False}
