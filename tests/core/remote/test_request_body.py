"""What is asked of a server about the variables of its template."""

import msgspec
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ChatMessage, Generate
from llm_lite.core.messages.interventions import Interventions, Shift
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


def test_interventions_are_for_llm_lite_alone():
    changes = Interventions((Shift("logits", (1.0,)),), "SmolLM2", "1234")
    command = Generate(HELLO, interventions=changes)
    asked = build_request(command, "m", DIALECTS["llm-lite"])
    assert msgspec.convert(asked.body["interventions"], Interventions) == changes
    with pytest.raises(RequestError, match="the server is no llm-lite"):
        build_request(command, "m", DIALECTS["vllm"])
    assert "interventions" not in build_request(Generate(HELLO), "m", DIALECTS["llm-lite"]).body
