"""A form of the answer beside functions: a call, or an answer of the form."""

import json

import openai
import pytest

from llm_lite.core.generation.grammars.forms import check_form, form_of
from llm_lite.core.messages import SamplingOptions

USER = [{"role": "user", "content": "weather?"}]
CITY = {"type": "object", "properties": {"city": {"$ref": "#/$defs/c"}}, "required": ["city"]}
CITY["$defs"] = {"c": {"type": "string"}}
PERSON = {
    "type": "object",
    "properties": {"name": {"$ref": "#/$defs/n"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "$defs": {"n": {"type": "string"}},
}
NAMES = ("weather", "time")
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
TEXT = {"format": {"type": "json_schema", "name": "person", "schema": PERSON}}
ANSWER = '{"name": "Bo", "age": 7}'
CALL = '{"name": "weather", "arguments": {"city": "Seoul"}}'


def chat(served, **more):
    tools = [{"type": "function", "function": {"name": n, "parameters": CITY}} for n in NAMES]
    given = {"model": "m", "messages": USER, "tools": tools, "response_format": FORM, **more}
    return served.client().chat.completions.create(**given)


def respond(served, **more):
    tools = [{"type": "function", "name": n, "parameters": CITY, "strict": False} for n in NAMES]
    given = {"model": "m", "input": "weather?", "tools": tools, "text": TEXT, **more}
    return served.client().responses.create(**given)


def chatted(made):
    message = made.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return message.content or "", calls


def chat_streamed(chunks):
    said, calls = "", {}
    for chunk in chunks:
        delta = chunk.choices[0].delta
        said += delta.content or ""
        for part in delta.tool_calls or ():
            name, arguments = calls.get(part.index, ("", ""))
            more = part.function.arguments or ""
            calls[part.index] = (name + (part.function.name or ""), arguments + more)
    return said, list(calls.values())


def responded(made):
    calls = [(item.name, item.arguments) for item in made.output if item.type == "function_call"]
    return made.output_text, calls


def response_streamed(events):
    return responded(next(one.response for one in events if one.type == "response.completed"))


WAYS = [
    lambda served, **more: chatted(chat(served, **more)),
    lambda served, **more: chat_streamed(chat(served, stream=True, **more)),
    lambda served, **more: responded(respond(served, **more)),
    lambda served, **more: response_streamed(respond(served, stream=True, **more)),
]


def as_call(style):
    return {"tags": f"<tool_call>\n{CALL}\n</tool_call>", "mistral": f"[TOOL_CALLS] [{CALL}]"}.get(
        style, CALL
    )


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("style", ["tags", "mistral", "llama", ""])
def test_it_is_a_call_or_an_answer_of_the_form(serve, style, way):
    for script, said, calls in (
        (ANSWER, ANSWER, []),
        (as_call(style), "", [("weather", '{"city": "Seoul"}')]),
    ):
        served = serve(tool_style=style, script=lambda request, text=script: text)
        for more in ({}, {"tool_choice": "auto"}, {"parallel_tool_calls": False}):
            found, called = WAYS[way](served, **more)
            assert (found.strip(), called) == (said, calls), more
        request = served.service.requests[-1]
        assert request.calls == ("" if style == "" else style)
        assert request.sampling.json_schema


def schema_of(served):
    schema = served.service.requests[-1].sampling.json_schema
    check_form("JSON schema", schema, form_of("JSON schema", schema))
    return json.loads(schema)


def test_where_a_call_is_json_the_schema_is_of_both_and_keeps_its_references(serve):
    served = serve(tool_style="llama")
    chat(served)
    ways = schema_of(served)["anyOf"]
    assert ways[0] == {"$ref": "#/$defs/answer"}
    assert [way["properties"]["name"]["const"] for way in ways[1:]] == list(NAMES)
    chat(served, tool_choice="required")
    assert [way["properties"]["name"]["const"] for way in schema_of(served)["anyOf"]] == list(NAMES)
    served = serve(tool_style="tags")
    chat(served)
    assert schema_of(served) == PERSON


def test_where_a_call_is_demanded_or_forbidden_there_is_nothing_to_choose(served):
    chat(served, tool_choice={"type": "function", "function": {"name": "time"}})
    assert schema_of(served) == CITY
    chat(served, tool_choice="none")
    assert schema_of(served) == PERSON
    assert served.service.requests[-1].calls == ""


def allowed(*names, mode):
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def allowed_here(*names, mode):
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


@pytest.mark.parametrize(("ask", "choice"), [(chat, allowed), (respond, allowed_here)])
def test_of_the_functions_only_those_may_be_called_that_are_allowed(served, ask, choice):
    ask(served, tool_choice=choice("time", mode="auto"))
    request = served.service.requests[-1]
    assert [tool.name for tool in request.tools] == ["time"] and request.calls == "tags"
    ask(served, tool_choice=choice("time", mode="required"))
    assert schema_of(served) == CITY
    ask(served, tool_choice=choice("time", "weather", mode="required"))
    assert len(schema_of(served)["anyOf"]) == 2
    with pytest.raises(openai.BadRequestError, match="'no' is none of the tools"):
        ask(served, tool_choice=choice("no", mode="auto"))


def test_a_grammar_goes_with_functions_too(serve):
    served = serve(script=lambda request: "yes")
    grammar = 'root ::= "yes" | "no"'
    made = chat(served, response_format={"type": "text"}, extra_body={"grammar": grammar})
    assert chatted(made) == ("yes", [])
    request = served.service.requests[-1]
    assert request.calls == "tags"
    assert request.sampling.grammar == grammar != SamplingOptions().grammar
