"""What is sent of an answer is the same wherever its parts are cut: a busy server sends fewer."""

from itertools import combinations

import pytest

from llm_lite.core.messages import GenerationFinished, GenerationStats, TokenDecoded
from llm_lite.server.openai.choice import Choice
from llm_lite.server.openai.tools import ToolPlan

BROKEN = {
    "then words": ("<tool_call>{a</tool_call> b", "{a b"),
    "between words": ("x \n<tool_call>{a</tool_call> b", "x \n{a b"),
    "two": ("<tool_call>{a</tool_call> b <tool_call>{c</tool_call>d", "{a b {cd"),
    "without an end": ("x<tool_call>{a", "x{a"),
    "another without an end": ("<tool_call>{a</tool_call>b<tool_call>{c", "{ab{c"),
    "with a mark in a text": ('<tool_call>{"a</tool_call> b <tool_call>{c', '{"a b {c'),
}


def sent(*parts):
    choice = Choice(ToolPlan(style="tags"))
    words = ""
    for number, part in enumerate(parts):
        choice.feed(TokenDecoded(0, part, 1.0, 0))
        if number == len(parts) - 1:
            choice.feed(GenerationFinished("end", GenerationStats()))
        delta = choice.delta()
        assert not delta.calls
        words += delta.text
    return words


@pytest.mark.parametrize("case", BROKEN)
def test_broken_calls_stand_where_they_were_written(case):
    text, expected = BROKEN[case]
    assert sent(text) == expected
    assert sent(*text) == expected
    for first, second in combinations(range(len(text) + 1), 2):
        assert sent(text[:first], text[first:second], text[second:]) == expected
