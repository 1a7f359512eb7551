"""Calls in answers: every style of marks, any cut of the text, half-written and hostile ones."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.messages import ToolCall
from llm_lite.core.tools.calls import (
    MARKS,
    MOST_CALLS,
    CallSplit,
    read_calls,
    style_of,
    variable_of,
)
from tests.fuzz.mutations import mutate_bytes

OSLO = ToolCall("weather", '{"city": "Oslo"}')
JSON = '{"name": "weather", "arguments": {"city": "Oslo"}}'
READ = {
    ("tags", f"Let me look.\n<tool_call>\n{JSON}\n</tool_call>"): ("Let me look.", (OSLO,)),
    ("tags", f"<tool_call>{JSON}</tool_call>\n<tool_call>{JSON}</tool_call>"): ("", (OSLO, OSLO)),
    ("tags", f"<tool_call>[{JSON}, {JSON}]"): ("", (OSLO, OSLO)),
    (
        "tags",
        "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
        "</tool_call>",
    ): ("", (OSLO,)),
    ("tags", '<tool_call>{"name": "a", "arguments": {"x": "</tool_call>"}}</tool_call>!'): (
        "!",
        (ToolCall("a", '{"x": "</tool_call>"}'),),
    ),
    ("tags", '<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>'): (
        "",
        (ToolCall("a", '{"x": 1}'),),
    ),
    ("tags", '<tool_call>{"name": "a"}</tool_call>'): ("", (ToolCall("a"),)),
    (  # marks within a value are text
        "tags",
        "<tool_call>\n<function=write>\n<parameter=text>\na</tool_call>\n</function>\n"
        "<function=b>\n<parameter=c>\n</parameter>\n<parameter=to>\nx\n</parameter>\n"
        "</function>\n</tool_call>!",
    ): (
        "!",
        (
            ToolCall(
                "write",
                '{"text": "a</tool_call>\\n</function>\\n<function=b>\\n<parameter=c>", "to": "x"}',
            ),
        ),
    ),
    ("tags", "<tool_call><function=a><parameter=b>1<parameter=c>2</function></tool_call>"): (
        "",
        (ToolCall("a", '{"b": "1", "c": "2"}'),),
    ),
    ("tags", "a < b, <tool, and no call"): ("a < b, <tool, and no call", ()),
    ("bar", f"<|tool_call|>[{JSON}]"): ("", (OSLO,)),
    ("bar", f"<|tool_call|>[{JSON}]<|/tool_call|>"): ("", (OSLO,)),
    ("mistral", f"[TOOL_CALLS][{JSON}]</s>"): ("", (OSLO,)),
    ("mistral", 'Yes.[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}'): ("Yes.", (OSLO,)),
    (
        "mistral",
        '[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{"city": "Oslo"}[TOOL_CALLS]a[ARGS]{}',
    ): ("", (OSLO, ToolCall("a"))),
    ("llama", '{"name": "weather", "parameters": {"city": "Oslo"}}'): ("", (OSLO,)),
    ("llama", '<|python_tag|>{"name": "weather", "parameters": {"city": "Oslo"}}<|eom_id|>'): (
        "",
        (OSLO,),
    ),
    ("llama", f"{JSON}; {JSON}"): ("", (OSLO, OSLO)),
    ("llama", '{"name": "weather"} is what I would write.'): (
        '{"name": "weather"} is what I would write.',
        (),
    ),
    ("llama", '{"a": 1}'): ('{"a": 1}', ()),
    (
        "harmony",
        "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
        '{"city": "Oslo"}<|call|>',
    ): ("", (OSLO,)),
    (
        "harmony",
        "<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>"
        '{"city": "Oslo"}',
    ): ("", (OSLO,)),
}


def pythonic(text):
    return f"<|tool_call_start|>{text}<|tool_call_end|>"


READ |= {
    ("python", pythonic('[weather(city="Oslo")]') + "Let me look."): ("Let me look.", (OSLO,)),
    ("python", pythonic("weather(city='Oslo'), a()")): ("", (OSLO, ToolCall("a"))),
    ("python", pythonic(f"[{JSON}]")): ("", (OSLO,)),
    ("python", pythonic("[ a ( x = -1.5e1 , y=[1, (True, None), ], z={'k': {}},) ]")): (
        "",
        (ToolCall("a", '{"x": -15.0, "y": [1, [true, null]], "z": {"k": {}}}'),),
    ),
    ("python", pythonic(r"""[a(x='it\'s "so"', y="\\d\n\u00e9<|tool_call_end|>")]""") + "!"): (
        "!",
        (ToolCall("a", r"""{"x": "it's \"so\"", "y": "\\d\né<|tool_call_end|>"}"""),),
    ),
    ("python", "a <|tool_call, and no call"): ("a <|tool_call, and no call", ()),
}


HOSTILE = """it's "so"\\n{1,<tool_call|>\n"""  # a text of a call


def of_gemma(text):
    return f"<|tool_call>{text}<tool_call|>"


READ |= {
    ("gemma", of_gemma('call:weather{city:<|"|>Oslo<|"|>}') + "Let me look."): (
        "Let me look.",
        (OSLO,),
    ),
    ("gemma", of_gemma('call:weather{city:<|"|>Oslo<|"|>}') + of_gemma("call:a{}")): (
        "",
        (OSLO, ToolCall("a")),
    ),
    ("gemma", of_gemma('call:a{x:-1.5e1,y:[1,[true,null],],"z":{k:{}},<|"|>w v<|"|>:2}')): (
        "",
        (ToolCall("a", '{"x": -15.0, "y": [1, [true, null]], "z": {"k": {}}, "w v": 2}'),),
    ),
    ("gemma", of_gemma(f'call:a{{x:<|"|>{HOSTILE}<|"|>}}') + "!"): (
        "!",
        (ToolCall("a", json.dumps({"x": HOSTILE})),),
    ),
    ("gemma", "a <|tool_call, and no call"): ("a <|tool_call, and no call", ()),
}
PROBLEMS = {
    ("gemma", of_gemma("call:weather{city:")): ("weather", "not valid Gemma notation: it has no"),
    ("gemma", of_gemma("call:a{x:open(1)}")): ("a", "expected a value, found 'open(1)}'"),
    ("gemma", of_gemma("call:a{x:1} b")): ("a", "expected the end of the call, found 'b'"),
    ("gemma", of_gemma("call:a(x=1)")): ("a", "expected '{', found '(x=1)'"),
    ("gemma", of_gemma("call:a{x 1}")): ("a", "expected ':', found '1}'"),
    ("gemma", of_gemma("call:a{x:1e999}")): ("a", "the number 1e999 is too large"),
    ("gemma", of_gemma("")): ("", "no function is named"),
    ("python", pythonic("[weather(city=")): ("weather", "not valid Python: it has no end"),
    ("python", pythonic("[a('Oslo')]")): (
        "a",
        "expected an argument by its name, found \"'Oslo')]\"",
    ),
    ("python", pythonic("[a(x=open(1))]")): ("a", "expected a value, found 'open(1))]'"),
    ("python", pythonic("[a(x=1)] + [b()]")): (
        "a",
        "expected the end of the calls, found '+ [b()]'",
    ),
    ("python", pythonic("[a(x={1: 2})]")): ("a", "expected a text as the key"),
    ("python", pythonic("[a(x=1e999)]")): ("a", "the number 1e999 is too large"),
    ("python", pythonic(r"[a(x='\ud83d')]")): ("a", "ud83d is no character"),
    ("python", pythonic("[]")): ("", "no function is named"),
    ("tags", '<tool_call>{"name": "a", "argum'): ("a", "not valid JSON: line 1"),
    ("tags", '<tool_call>{"name": "a", "arguments": [1]}</tool_call>'): ("a", "a list, expected"),
    ("tags", '<tool_call>{"arguments": {}}</tool_call>'): ("", "no function is named"),
    ("tags", '<tool_call>{"name": "rm -rf /"}</tool_call>'): ("", "no name of a function"),
    ("tags", '<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>'): ("a", "NaN"),
    ("tags", '<tool_call>{"name": "a", "arguments": {"x": 1e999}}</tool_call>'): (
        "a",
        "too large",
    ),
    ("mistral", "[TOOL_CALLS]weather[ARGS]{city}"): ("weather", "not valid JSON"),
    ("harmony", "<|channel|>commentary to=functions.a<|message|>{"): ("a", "not valid JSON"),
}


@pytest.mark.parametrize(("style", "text"), READ)
def test_calls_are_told_from_what_is_said(style, text):
    split = read_calls(style, text)
    assert (split.visible_text, split.calls) == READ[style, text]


@pytest.mark.parametrize(("style", "text"), PROBLEMS)
def test_what_cannot_be_called_is_a_call_with_a_sentence(style, text):
    name, problem = PROBLEMS[style, text]
    (found,) = read_calls(style, text).calls
    assert found.name == name and problem in found.problem


@pytest.mark.parametrize("levels", [140, 100_000])
def test_deep_nesting_is_a_sentence(levels):
    deep = "[" * levels + "]" * levels
    text = f'<tool_call>{{"name": "a", "arguments": {{"x": {deep}}}}}</tool_call>'
    others = ("python", pythonic(f"[a(x={deep})]")), ("gemma", of_gemma(f"call:a{{x:{deep}}}"))
    for style, one in (("tags", text), *others):
        (found,) = read_calls(style, one).calls
        assert "nests" in found.problem


@pytest.mark.parametrize(
    "body",
    [
        *(" " * 250_000, 'a(x="' * 50_000, "[" * 250_000, 'a(x="' + '\\"' * 120_000),
        *("a(x=1)," * 30_000, "call:a{x:" + "1" * 250_000 + "x}", "a{x:1." + "1" * 250_000 + "x}"),
        *("a{x:1e" + "1" * 250_000 + "-}", "a(x=" + "1" * 250_000 + ")", "a{x:" + "x" * 250_000),
        *("a{x:" + '"\\' * 100_000, "a{" + '<|"|>' * 50_001, "a(x=" + "'" * 200_001),
    ],
)
def test_long_calls_of_nothing_take_no_longer_than_they_are(body):
    """Patterns that look again from each place would take minutes."""
    for style, text in (("python", pythonic(body)), ("gemma", of_gemma(body))):
        assert len(read_calls(style, text).calls) <= MOST_CALLS


@pytest.mark.parametrize("part", ["<parameter=a>", "<function=a>", "<parameter=a>x</parameter>"])
def test_long_calls_of_tags_take_no_longer_than_they_are(part):
    for end in ("", "</function></tool_call>"):
        text = f"<tool_call><function=a>{part * 60_000}{end}"
        assert 0 < len(read_calls("tags", text).calls) <= MOST_CALLS


def test_an_answer_that_is_cut_within_many_calls_is_read():
    """Calls again and again up to a limit, the last one cut: a pattern over all of them hangs."""
    block = f"<tool_call>\n{JSON}\n</tool_call>\n"
    found = read_calls(
        "tags", "<think>\n\n</think>\n\n" + block * 9_000 + '<tool_call>\n{"name": "w'
    )
    assert found.calls == (OSLO,) * MOST_CALLS


def test_an_answer_of_calls_without_end_is_cut():
    assert len(read_calls("tags", f"<tool_call>{JSON}</tool_call>" * 500).calls) == MOST_CALLS
    quoted = '<tool_call>"</tool_call>' * 2000
    assert len(read_calls("tags", quoted).calls) <= MOST_CALLS


@pytest.mark.parametrize(("style", "text"), [*READ, *PROBLEMS])
def test_it_does_not_matter_how_the_text_is_cut(style, text):
    whole = read_calls(style, text)
    for size in (1, 3, 7):
        split = CallSplit(style)
        for at in range(0, len(text), size):
            split = split.fed(text[at : at + size])
            assert text.startswith(split.raw)
        split = split.ended()
        assert (split.visible_text, split.calls, split.raw) == (
            whole.visible_text,
            whole.calls,
            text,
        )


def test_a_call_is_seen_while_it_is_written():
    split = CallSplit("tags").fed('So.\n<tool_call>\n{"name": "weather", "arguments": {"ci')
    assert split.visible_text == "So." and split.calls == ()
    assert split.begun is not None and split.begun.name == "weather"
    assert split.fed('ty": "Oslo"}}</tool_call>').calls == (OSLO,)


def test_a_stopped_call_can_be_continued():
    stopped = CallSplit("tags").fed('<tool_call>{"name": "weather", "argu').ended()
    assert stopped.calls[0].problem
    text = f"<tool_call>{JSON}</tool_call>"
    assert stopped.up_to(text).ended().calls == (OSLO,)


PIECES = st.sampled_from(
    (
        *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<function=a>", '"', "\n", ","),
        *(JSON, "{", "}", "[", "\\", "</function>", "<|channel|>commentary to=", "<|message|>"),
        *("<|tool_call_start|>", "<|tool_call_end|>", "a(x=", "'", ")"),
        *("<|tool_call>", "<tool_call|>", "call:a{x:", '<|"|>'),
        *("<|python_tag|>", "<|tool_call|>", "<|call|>", "<parameter=b>", "</parameter>", "😀"),
    )
)


@given(st.sampled_from([*MARKS]), st.lists(PIECES, max_size=12), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_no_text_upsets_it(style, pieces, size):
    text = "".join(pieces)
    whole, split = read_calls(style, text), CallSplit(style)
    for at in range(0, len(text), size):
        split = split.fed(text[at : at + size])
    split = split.ended()
    assert (split.calls, split.raw) == (whole.calls, text)
    for found in whole.calls:
        assert found.problem or isinstance(json.loads(found.arguments), dict)


@pytest.mark.parametrize(("style", "text"), READ)
def test_mutated_answers_are_read(style, text):
    rng = random.Random(text)
    for _ in range(30):
        changed = mutate_bytes(text.encode(), rng).decode(errors="replace")
        for found in read_calls(style, changed).calls:
            assert found.problem or isinstance(json.loads(found.arguments), dict)


TEMPLATES = {
    "{% if tools %}<tool_call>{% endif %}": "tags",
    "{%- if xml_tools %}<tool_call>{% endif %}": "tags",
    "{{ tools }}[TOOL_CALLS]": "mistral",
    '{% for t in tools %}{"name": function name, "parameters": dictionary}{% endfor %}': "llama",
    "{% if tools %}<|tool_call|>{% endif %}": "bar",
    "{% if tools %}<|tool_call_start|>{% endif %}": "python",
    "{% if tools %}List of tools: {{ tools }}{% endif %}": "unknown",  # it writes no calls
    "{% if tools %} to=functions.{% endif %}": "harmony",
    "{% if tools %}<|tool_call>call:{% endif %}": "gemma",
    "You have tools. {{ messages }}<tool_call>": "",
    "{{ messages }}": "",
}


@pytest.mark.parametrize("source", TEMPLATES)
def test_the_style_is_read_from_the_template(source):
    assert style_of(source) == TEMPLATES[source]


def test_the_variable_counts_where_it_is_code():
    assert variable_of("tools } {{ x }} tools {%- if xml_tools %}") == "xml_tools"
    assert variable_of("{{ retools }} tools") == ""


def test_half_a_character_is_no_call_that_can_run():
    (made,) = read_calls("tags", '<tool_call>{"name": "a", "arguments": {"x": "\\ud83d"}}').calls
    assert "half a character" in made.problem
    (made,) = read_calls(
        "tags", '<tool_call>{"name": "a", "arguments": {"x": "\\ud83d\\ude00"}}'
    ).calls
    assert made == ToolCall("a", '{"x": "😀"}')
