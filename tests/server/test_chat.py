"""Chats by OpenAI's own client."""

import json
import math

import openai
import pytest

from llm_lite.core.messages import GenerationFinished, GenerationStats, SamplingDefault
from llm_lite.core.messages.interventions import Interventions, Scale, Shift
from llm_lite.core.records import replace
from llm_lite.server.openai.choice import Choice
from llm_lite.server.openai.tools import ToolPlan
from tests.server.scripted_service import PAGE

USER = [{"role": "user", "content": "hello there"}]


def ask(served, **more):
    given = {"model": "scripted", "messages": USER, **more}
    return served.client().chat.completions.create(**given)


def told(served):
    """The last request that the service got."""
    return served.service.requests[-1]


def test_an_answer_comes_whole(served):
    made = ask(served)
    assert made.choices[0].message.content == "You said: hello there"
    assert made.choices[0].message.role == "assistant"
    assert made.choices[0].finish_reason == "stop"
    assert made.usage.completion_tokens == 6 and made.usage.prompt_tokens > 3
    assert made.usage.total_tokens == made.usage.completion_tokens + made.usage.prompt_tokens
    assert made.id == told(served).response


def test_an_answer_streams(served):
    chunks = list(ask(served, stream=True, stream_options={"include_usage": True}))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == "You said: hello there"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage.completion_tokens == 6 and chunks[-1].choices == []
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert {c.id for c in chunks} == {told(served).response}
    assert all(c.usage is None for c in chunks[:-1])


def test_usage_is_told_only_when_asked(served):
    assert all(c.choices for c in ask(served, stream=True))


def test_several_answers_have_seeds_and_names_of_their_own(served):
    made = ask(served, n=3, seed=5)
    assert [c.index for c in made.choices] == [0, 1, 2]
    assert {c.message.content for c in made.choices} == {"You said: hello there"}
    asked = served.service.requests[-3:]
    assert [r.sampling.seed for r in asked] == [5, 6, 7]
    assert [r.response for r in asked] == [made.id, f"{made.id}.1", f"{made.id}.2"]
    assert made.usage.completion_tokens == 18
    assert made.usage.prompt_tokens == ask(served).usage.prompt_tokens


def test_several_answers_stream_by_their_index(served):
    said = ["", ""]
    for chunk in ask(served, n=2, stream=True):
        for choice in chunk.choices:
            said[choice.index] += choice.delta.content or ""
    assert said == ["You said: hello there"] * 2


def test_every_option_reaches_the_sampler(served):
    ask(
        served,
        temperature=0.5,
        top_p=0.8,
        seed=7,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        stop=["x", "y"],
        logit_bias={"5": -100, "7": 2.5},
        max_completion_tokens=9,
        extra_body={
            "top_k": 3,
            "min_p": 0.01,
            "repeat_penalty": 1.1,
            "penalty_window": 12,
            "typical_p": 0.9,
            "xtc_probability": 0.5,
            "xtc_threshold": 0.2,
            "dry_multiplier": 0.8,
            "dry_base": 2,
            "dry_allowed_length": 3,
            "dry_window": 99,
            "dry_breakers": ["."],
            "mirostat_tau": 5,
            "mirostat_eta": 0.2,
            "max_thinking_tokens": 20,
            "grammar": 'root ::= "a"',
        },
    )
    sampling = told(served).sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.8, 7)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.1, 0.2)
    assert (sampling.stop, sampling.max_new_tokens) == (("x", "y"), 9)
    assert sampling.logit_bias == ((5, -100.0), (7, 2.5))
    assert (sampling.top_k, sampling.min_p, sampling.repetition_penalty) == (3, 0.01, 1.1)
    assert (sampling.penalty_window, sampling.typical_p) == (12, 0.9)
    assert (sampling.xtc_probability, sampling.xtc_threshold) == (0.5, 0.2)
    assert (sampling.dry_multiplier, sampling.dry_base) == (0.8, 2)
    assert (sampling.dry_allowed_length, sampling.dry_window) == (3, 99)
    assert (sampling.dry_breakers, sampling.max_thinking_tokens) == ((".",), 20)
    assert (sampling.mirostat_tau, sampling.mirostat_eta) == (5, 0.2)
    assert sampling.grammar == 'root ::= "a"'


def test_an_answer_is_as_long_as_it_may_be(served):
    made = ask(served, max_tokens=2)
    assert made.choices[0].message.content == "You said"
    assert made.choices[0].finish_reason == "length"
    assert told(served).sampling.max_new_tokens == 2
    ask(served)
    assert told(served).sampling.max_new_tokens == served.service.context


def test_a_stop_string_ends_it_and_is_not_said(served):
    made = ask(served, stop="hello")
    assert made.choices[0].message.content == "You said: "
    assert made.choices[0].finish_reason == "stop"


def test_what_the_cache_held_is_told(served):
    long = [{"role": "user", "content": "one two three four five six seven " * 6}]
    ask(served, messages=long)
    again = ask(served, messages=long)
    cached = again.usage.prompt_tokens_details.cached_tokens
    assert cached >= PAGE and cached % PAGE == 0
    last = list(ask(served, messages=long, stream=True, stream_options={"include_usage": True}))[-1]
    assert last.usage.prompt_tokens_details.cached_tokens == cached


def test_likelihoods_are_told_token_by_token(served):
    made = ask(served, logprobs=True, top_logprobs=3)
    entries = made.choices[0].logprobs.content
    assert "".join(e.token for e in entries) == "You said: hello there"
    assert all(e.logprob == pytest.approx(math.log(0.5)) for e in entries)
    assert [len(e.top_logprobs) for e in entries] == [3] * len(entries)
    assert bytes(entries[0].bytes).decode() == entries[0].token
    assert told(served).alternatives == 3
    assert ask(served).choices[0].logprobs is None


def test_likelihoods_stream_with_their_text(served):
    entries = []
    for chunk in ask(served, stream=True, logprobs=True):
        if chunk.choices[0].logprobs is not None:
            entries += chunk.choices[0].logprobs.content
    assert "".join(e.token for e in entries) == "You said: hello there"


def test_schemas_are_kept(served):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["city", "people"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    made = ask(served, response_format=form)
    assert json.loads(made.choices[0].message.content) == {"city": "Seoul", "people": 7}
    assert json.loads(told(served).sampling.json_schema) == schema
    ask(served, response_format={"type": "json_object"})
    assert json.loads(told(served).sampling.json_schema) == {"type": "object"}
    for other in (  # as llama.cpp's server and its bindings take it
        {"type": "json_object", "schema": schema},
        {"type": "json_schema", "schema": schema},
        {"type": "json_schema", "json_schema": {"schema": schema}},
    ):
        ask(served, response_format=other)
        assert json.loads(told(served).sampling.json_schema) == schema


def test_minus_one_is_no_limit(served):
    for given in ({"max_tokens": -1}, {"max_completion_tokens": -1}, {}):
        ask(served, **given)
        assert told(served).sampling.max_new_tokens == served.service.model.context
    client = served.client()
    client.completions.create(model="scripted", prompt="once", max_tokens=-1)
    assert told(served).sampling.max_new_tokens == served.service.model.context
    client.responses.create(model="scripted", input="once", max_output_tokens=-1)
    assert told(served).sampling.max_new_tokens == served.service.model.context
    with pytest.raises(openai.BadRequestError, match="from 1 to"):
        ask(served, max_tokens=0)


def test_thoughts_are_told_apart(serve):
    served = serve(thinks=True)
    message = ask(served).choices[0].message
    assert message.reasoning_content == "Let me see."
    assert message.content == "You said: hello there"
    thought, said = "", ""
    for chunk in ask(served, stream=True):
        delta = chunk.choices[0].delta
        thought += getattr(delta, "reasoning_content", None) or ""
        said += delta.content or ""
    assert (thought, said) == ("Let me see.", "You said: hello there")
    usage = ask(served).usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens


@pytest.mark.parametrize(
    "off",
    [
        {"reasoning_effort": "none"},
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    ],
)
def test_thinking_can_be_switched_off(served, off):
    ask(served)
    assert told(served).thinking
    ask(served, **off)
    assert not told(served).thinking


def test_roles_and_parts_become_messages(served):
    ask(
        served,
        messages=[
            {"role": "developer", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            {"role": "assistant", "content": "c", "reasoning_content": "d"},
            {"role": "user", "content": "e", "name": "somebody"},
        ],
    )
    said = [(m.role, m.content, m.thought) for m in told(served).messages]
    assert said == [
        ("system", "be brief", ""),
        ("user", "ab", ""),
        ("assistant", "c", "d"),
        ("user", "e", ""),
    ]


def test_the_last_message_goes_on_when_asked(served):
    messages = [*USER, {"role": "assistant", "content": "Well"}]
    ask(served, messages=messages)
    assert not told(served).continue_last
    ask(served, messages=messages, extra_body={"continue_final_message": True})
    assert told(served).continue_last


def test_heads_of_a_request_have_gains(served):
    layers = served.service.model.layers
    ask(served)
    assert not told(served).interventions
    wanted = [{"layer": 0, "head": 1, "gain": 0}, {"layer": layers - 1, "head": 0, "gain": 1.5}]
    ask(served, extra_body={"head_gains": wanted})
    asked = {(one.site, one.unit): one.factor for one in told(served).interventions.changes}
    last = f"layers.{layers - 1}.attention.heads"
    assert asked == {("layers.0.attention.heads", 1): 0.0, (last, 0): 1.5}
    ask(served, extra_body={"head_gains": [{"layer": 0, "head": 0, "gain": 1}]})
    assert not told(served).interventions, "that is how heads are"
    for name in ("layer", "head"):
        wrong = [{"layer": 0, "head": 0, "gain": 0, name: 999}]
        with pytest.raises(
            openai.BadRequestError, match=rf"head_gains\[0\]\.{name}: expected 0 to"
        ):
            ask(served, extra_body={"head_gains": wrong})


def test_a_request_has_interventions(served):
    ask(served)
    assert not told(served).interventions
    shift = {"kind": "shift", "site": "blocks.0.hook_resid_post", "vector": [1, 2.5]}
    head = {"kind": "scale", "site": "layers.0.attention.heads", "factor": 0, "unit": 1}
    ask(served, extra_body={"interventions": [shift, head]})
    assert told(served).interventions == Interventions(
        (
            Shift("blocks.0.hook_resid_post", (1.0, 2.5)),
            Scale("layers.0.attention.heads", 0.0, 1),
        )
    )
    for wrong, sentence in (
        ({"kind": "bend"}, r"interventions\[0\].kind"),
        ({"kind": "shift", "site": "logits"}, r"interventions\[0\].vector: is missing"),
        ({**head, "factor": "much"}, r"interventions\[0\].factor: expected a number"),
    ):
        with pytest.raises(openai.BadRequestError, match=sentence):
            ask(served, extra_body={"interventions": [wrong]})
    kept = {"changes": [head], "model": "SmolLM2", "weights": "1234"}  # as files have them
    ask(served, extra_body={"interventions": kept})
    assert told(served).interventions == Interventions(
        (Scale("layers.0.attention.heads", 0.0, 1),), "SmolLM2", "1234"
    )
    for wrong, sentence in (
        ({"changes": [{**head, "factor": "much"}]}, r"interventions.changes\[0\].factor: expected"),
        ({"changes": [head], "modle": "SmolLM2"}, r"interventions.*modle"),
        ("all of them", "interventions: expected"),
    ):
        with pytest.raises(openai.BadRequestError, match=sentence):
            ask(served, extra_body={"interventions": wrong})


def test_clients_are_told_apart(served):
    ask(served, user="ann")
    first = told(served).client
    ask(served)
    assert first == "127.0.0.1 ann" and told(served).client.startswith("127.0.0.1 OpenAI/Python")


def test_the_async_client_works_too(served):
    import asyncio

    async def talk():
        client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none")
        stream = await client.chat.completions.create(model="scripted", messages=USER, stream=True)
        said = ""
        async for chunk in stream:
            said += chunk.choices[0].delta.content or ""
        await client.close()
        return said

    assert asyncio.run(talk()) == "You said: hello there"


def test_the_model_is_listed_without_its_path(served):
    found = served.client().models.list().data
    assert [one.id for one in found] == ["scripted"]
    assert "secret" not in found[0].model_dump_json()
    assert served.client().models.retrieve("scripted").id == "scripted"


def test_why_an_answer_stopped_is_said_beside_openais_word(served):
    made = ask(served, stop=["said"])
    assert (made.choices[0].finish_reason, made.choices[0].stop_reason) == ("stop", "stop string")
    assert ask(served).choices[0].stop_reason is None
    last = [c for c in ask(served, stream=True, stop=["said"]) if c.choices[0].finish_reason][-1]
    assert last.choices[0].stop_reason == "stop string"


@pytest.mark.parametrize("reason", ["role", "repetition"])
def test_ends_that_openai_has_no_word_for(reason):
    choice = Choice(ToolPlan())
    choice.feed(GenerationFinished(reason, GenerationStats()))
    assert (choice.finish_reason, choice.stop_reason) == ("stop", reason)


def test_the_guard_is_a_field_of_a_request(served):
    ask(served)
    assert told(served).sampling.repetition_guard
    ask(served, extra_body={"repetition_guard": False})
    assert not told(served).sampling.repetition_guard


def test_what_the_model_advises_holds_where_a_request_says_nothing(served):
    advised = (SamplingDefault("temperature", 0.2, "a card"), SamplingDefault("top_k", 7, "a card"))
    served.service._model = replace(served.service.model, sampling_defaults=advised)
    ask(served, temperature=0.9)
    sampling = told(served).sampling
    assert (sampling.temperature, sampling.top_k) == (0.9, 7)
    (model,) = served.client().models.list().data
    assert model.has_chat_template
    assert model.sampling_defaults[0] == {"name": "temperature", "value": 0.2, "source": "a card"}
