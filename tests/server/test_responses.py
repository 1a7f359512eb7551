"""The Responses API by OpenAI's own client."""

import json

import openai
import pytest

WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def ask(served, **more):
    return served.client().responses.create(**{"model": "scripted", "input": "hello", **more})


def test_a_response_has_a_message(served):
    made = ask(served, instructions="Be brief.", temperature=0.5, max_output_tokens=50)
    assert made.output_text == "You said: hello" and made.status == "completed"
    assert made.usage.output_tokens == 5 and made.usage.input_tokens > 3
    told = served.service.requests[-1]
    assert [(m.role, m.content) for m in told.messages] == [
        ("system", "Be brief."),
        ("user", "hello"),
    ]
    assert told.sampling.temperature == 0.5 and made.id == told.response


def test_it_streams_with_its_events(served):
    events = list(ask(served, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == "You said: hello" == events[-1].response.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_clients_own_reader_of_streams_follows(served):
    with served.client().responses.stream(model="scripted", input="hello") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "You said: hello"


def test_a_short_answer_is_incomplete(served):
    made = ask(served, max_output_tokens=2)
    assert made.status == "incomplete" and made.incomplete_details.reason == "max_output_tokens"
    assert list(ask(served, max_output_tokens=2, stream=True))[-1].type == "response.incomplete"


def test_thoughts_are_an_item(serve):
    served = serve(thinks=True)
    made = ask(served)
    assert [item.type for item in made.output] == ["reasoning", "message"]
    assert made.output[0].content[0].text == "Let me see."
    assert made.output_text == "You said: hello"
    events = list(ask(served, stream=True))
    thought = "".join(e.delta for e in events if e.type == "response.reasoning_text.delta")
    assert thought == "Let me see."
    ask(served, reasoning={"effort": "none"})
    assert not served.service.requests[-1].thinking


def test_calls_are_items_and_their_results_go_back(served):
    made = ask(served, tools=[WEATHER])
    [call] = made.output
    assert (call.type, call.name) == ("function_call", "weather")
    assert json.loads(call.arguments) == {"city": "Seoul"}
    again = ask(
        served,
        tools=[WEATHER],
        input=[
            {"role": "user", "content": "weather?"},
            {"type": "reasoning", "id": "rs", "summary": []},
            call.model_dump(),
            {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
        ],
    )
    assert again.output_text == "You said: rain"
    told = served.service.requests[-1].messages
    assert [(m.role, m.name) for m in told] == [
        ("user", ""),
        ("assistant", ""),
        ("tool", "weather"),
    ]


def test_calls_stream_as_items(served):
    events = list(ask(served, tools=[WEATHER], stream=True))
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert json.loads(done[0].arguments) == {"city": "Seoul"}
    assert events[-1].response.output[0].name == "weather"


def test_schemas_are_kept(served):
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {}}}
    made = ask(served, text={"format": form})
    assert json.loads(made.output_text) == {}
    assert json.loads(served.service.requests[-1].sampling.json_schema) == form["schema"]


def test_likelihoods_come_when_included(served):
    made = ask(served, include=["message.output_text.logprobs"], top_logprobs=2)
    found = made.output[0].content[0].logprobs
    assert "".join(one.token for one in found) == "You said: hello"
    assert len(found[0].top_logprobs) == 2


def test_a_failure_in_a_stream_is_an_event(serve):
    last = list(ask(serve(fail_after=2, delay=0.02), stream=True))[-1]
    assert last.type == "response.failed" and "fails here" in last.response.error.message


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"input": [{"type": "reasoning"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "x"}, {"type": "function_call", "call_id": 5}]}, "input[1].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "input[0].call_id"),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
        ),
    ],
)
def test_what_is_not_kept_or_run_is_refused(served, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, **more)
    assert refused.value.param == param
