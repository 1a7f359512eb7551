"""Templates in the forms of many families: prompts as transformers has them, and nothing lost."""

import functools
import json

import pytest

from llm_lite.core.generation import prompt
from llm_lite.core.messages import ChatMessage, ToolCall, ToolSpec
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata
from tests.paths import FIXTURES

FOLDER = FIXTURES / "chat_templates"
KEPT = json.loads((FOLDER / "prompts.json").read_text(encoding="utf-8"))
PROMPTS = KEPT["prompts"]
TOKENIZER = Tokenizer.from_gguf(tokenizer_metadata(300), "tiny")
TOOL = ToolSpec(
    KEPT["tool"]["name"], KEPT["tool"]["description"], json.dumps(KEPT["tool"]["parameters"])
)


@functools.cache
def template(name):
    return ChatTemplate((FOLDER / f"{name}.jinja").read_text("utf-8"), **KEPT["tokens"])


def messages(talk):
    return [
        ChatMessage(
            said["role"],
            said["content"],
            thought=said.get("thought", ""),
            calls=tuple(
                ToolCall(call["name"], json.dumps(call["arguments"], ensure_ascii=False))
                for call in said.get("calls", ())
            ),
            name=said.get("name", ""),
        )
        for said in KEPT["talks"][talk]
    ]


def text_of(case):
    segments = prompt.chat_segments(
        TOKENIZER,
        template(case["template"]),
        messages(case["talk"]),
        thinking=case["thinking"],
        tools=(TOOL,) if case["tools"] else (),
        values=case["values"],
    )
    return "".join(text for text, _ in segments)


@pytest.mark.parametrize(
    "case", PROMPTS, ids=lambda c: f"{c['template']}, {c['talk']}, {c['thinking']}"
)
def test_a_prompt_is_that_of_transformers_and_has_all_that_was_said(case):
    text = text_of(case)
    assert text == case["text"]
    for said in messages(case["talk"]):
        assert said.content.strip() in text
        for call in said.calls:
            assert call.name in text and json.loads(call.arguments)["city"] in text


def test_templates_of_many_families_are_tried():
    assert len({case["template"] for case in PROMPTS}) >= 30
