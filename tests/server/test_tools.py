"""Functions by OpenAI's own client: offered, called, answered, demanded."""

import json

import openai
import pytest

USER = [{"role": "user", "content": "weather?"}]


def function(name, properties=None, required=()):
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {
        "type": "function",
        "function": {"name": name, "description": f"{name} it", "parameters": schema},
    }


WEATHER = function("weather", {"city": {"type": "string"}}, ["city"])
TIME = function("time", {"zone": {"type": "string"}}, ["zone"])


def ask(served, **more):
    given = {"model": "scripted", "messages": USER, "tools": [WEATHER, TIME], **more}
    return served.client().chat.completions.create(**given)


def test_a_call_is_read_out_of_the_answer(served):
    made = ask(served)
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    [call] = choice.message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Seoul"}
    assert [tool.name for tool in served.service.requests[-1].tools] == ["weather", "time"]


def test_calls_stream_as_deltas(served):
    calls, said, reason = {}, "", None
    for chunk in ask(served, stream=True):
        choice = chunk.choices[0]
        said += choice.delta.content or ""
        reason = choice.finish_reason or reason
        for delta in choice.delta.tool_calls or ():
            call = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": ""})
            call["id"] += delta.id or ""
            call["name"] += delta.function.name or ""
            call["arguments"] += delta.function.arguments or ""
    assert reason == "tool_calls" and said == ""
    assert calls[0]["name"] == "weather" and calls[0]["id"].startswith("call_")
    assert json.loads(calls[0]["arguments"]) == {"city": "Seoul"}


def test_arguments_stream_as_they_are_written(serve):
    arguments = '{"city": "a } \\"b\\" {", "days": [1, {"x": 2}]}'
    calls = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        for name in ("weather", "time")
    ]
    served = serve(script=lambda request: "Wait. " + "\n".join(calls), delay=0.003)
    whole = ask(served).choices[0].message
    assert [json.loads(call.function.arguments) for call in whole.tool_calls] == [
        json.loads(arguments)
    ] * 2
    deltas, said = [], ""
    for chunk in ask(served, stream=True):
        deltas += chunk.choices[0].delta.tool_calls or ()
        said += chunk.choices[0].delta.content or ""
    for index, name in enumerate(("weather", "time")):
        mine = [delta for delta in deltas if delta.index == index]
        assert [d.function.name for d in mine if d.function.name] == [name]
        assert "".join(d.function.arguments for d in mine) == arguments
        assert len(mine) > 4 and len({d.id for d in mine if d.id}) == 1
    assert said.strip() == whole.content == "Wait."
    one = [
        d.index
        for chunk in ask(served, stream=True, parallel_tool_calls=False)
        for d in chunk.choices[0].delta.tool_calls or ()
    ]
    assert set(one) == {0}


def test_results_go_back_in_the_order_of_their_calls(served):
    called = [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]
    messages = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": called},
        {"role": "tool", "tool_call_id": "b", "content": "noon"},
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
    ]
    made = ask(served, messages=messages)
    assert made.choices[0].message.content == "You said: noon"
    told = served.service.requests[-1].messages
    assert [(m.role, m.name, m.content) for m in told[2:]] == [
        ("tool", "weather", "rain"),
        ("tool", "time", "noon"),
    ]
    assert [call.name for call in told[1].calls] == ["weather", "time"]


def test_none_offers_nothing(served):
    assert ask(served, tool_choice="none").choices[0].message.content == "You said: weather?"
    assert served.service.requests[-1].tools == ()


def test_a_named_function_is_forced_by_its_schema(served):
    chosen = {"type": "function", "function": {"name": "time"}}
    made = ask(served, tool_choice=chosen)
    [call] = made.choices[0].message.tool_calls
    assert call.function.name == "time"
    assert json.loads(call.function.arguments) == {"zone": "Seoul"}
    schema = served.service.requests[-1].sampling.json_schema
    assert json.loads(schema) == TIME["function"]["parameters"]
    pieces = [
        delta.function.arguments
        for chunk in ask(served, tool_choice=chosen, stream=True)
        for delta in chunk.choices[0].delta.tool_calls or ()
    ]
    assert json.loads("".join(pieces)) == {"zone": "Seoul"}


def test_required_is_one_of_them(served):
    made = ask(served, tool_choice="required")
    [call] = made.choices[0].message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Seoul"}
    schema = json.loads(served.service.requests[-1].sampling.json_schema)
    assert schema["$defs"]["arguments_0"] == WEATHER["function"]["parameters"]
    names = [one["properties"]["name"]["const"] for one in schema["anyOf"]]
    assert names == ["weather", "time"]


@pytest.mark.parametrize("parallel", [True, False])
def test_one_call_at_most_where_that_is_asked(serve, parallel):
    calls = "".join(
        f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>'
        for name in ("weather", "time")
    )
    served = serve(script=lambda request: f"Let me look. {calls}")
    message = ask(served, parallel_tool_calls=parallel).choices[0].message
    names = [call.function.name for call in message.tool_calls]
    assert names == (["weather", "time"] if parallel else ["weather"])
    assert message.content == "Let me look."


def test_a_broken_call_is_shown_and_breaks_nothing(serve):
    broken = "<tool_call>{nonsense</tool_call> and so on"
    served = serve(script=lambda request: broken, delay=0.003)
    message = ask(served).choices[0].message
    assert "{nonsense" in message.content and "and so on" in message.content
    assert not message.tool_calls
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask(served, stream=True)]
    assert "".join(pieces) == "{nonsense and so on"


@pytest.mark.parametrize("style", ["", "unknown"])
def test_a_model_without_functions_is_told_of_them_in_words(serve, style):
    call = '{"name": "weather", "arguments": {"city": "Busan"}}'
    served = serve(tool_style=style, script=lambda request: call)
    made = ask(served, messages=[{"role": "system", "content": "Be kind."}, *USER])
    assert json.loads(made.choices[0].message.tool_calls[0].function.arguments) == {"city": "Busan"}
    request = served.service.requests[-1]
    assert request.tools == ()
    told = request.messages[0].content
    assert told.startswith("Be kind.") and "- weather: weather it" in told
    plain = serve(tool_style=style, script=lambda request: "It rains.")
    assert ask(plain).choices[0].message.content == "It rains."


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "'no'"),
        ({"tools": [WEATHER, WEATHER]}, "there already"),
        ({"tools": [function("a b")]}, "tools[0]"),
        ({"tools": [], "tool_choice": "required"}, "no tools"),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "'web_search'"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "no tools"),
        ({"tools": [{"type": "x"}, {"type": "function"}]}, "tools[1].function"),
        ({"tools": "weather"}, "tools: expected a list"),
    ],
)
def test_what_cannot_be_is_a_sentence(served, more, named):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, **more)
    assert named in refused.value.message
