"""What is asked of /v1/chat/completions, by its table."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import MOST_ALTERNATIVES, AnswerRequest, ModelInfo, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.server.call import Call
from llm_lite.server.openai.messages import MESSAGE, MOST_MESSAGES, messages_of
from llm_lite.server.openai.running import (
    MODEL,
    STREAM_OPTIONS,
    USER,
    WITHOUT_EFFECT,
    name_of,
)
from llm_lite.server.openai.sampling import GRAMMAR, JSON_SCHEMA, SAMPLING, of_choice, sampling_of
from llm_lite.server.openai.tools import TOOL_FIELDS, ToolPlan, choice_of, plan_of, specs_of
from llm_lite.server.tables.kinds import (
    AnyObject,
    Anything,
    FieldProblem,
    Flag,
    ListOf,
    OneOf,
    Text,
    Whole,
)
from llm_lite.server.tables.records import Field, Record, request_body
from llm_lite.server.tables.unsupported import OF_ALL, OF_CHAT

MOST_TOKENS = OneOf((Whole(-1, -1), Whole(1, 1 << 30)))
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_SCHEMA = Record(
    "NamedSchema",
    (
        Field("name", Text(most=256)),
        Field("schema", AnyObject(), "The answer is JSON of this schema."),
        Field("description", Text()),
        Field("strict", Flag(), "It always is."),
    ),
    open=True,
)
FORMAT = Record(
    "ResponseFormat",
    (
        Field("type", Text(choices=("text", "json_object", "json_schema")), required=True),
        Field("json_schema", _SCHEMA),
        Field("schema", AnyObject(), "The same without a name, as llama.cpp's server takes it."),
    ),
    open=True,
)
CHAT = request_body(
    "ChatCompletionRequest",
    (
        MODEL,
        Field("messages", ListOf(MESSAGE, least=1, most=MOST_MESSAGES), required=True),
        Field("max_completion_tokens", MOST_TOKENS, "Without it, or -1: up to the context's end."),
        Field("max_tokens", MOST_TOKENS, "The same, by its older name."),
        Field("n_predict", MOST_TOKENS, "The same, by llama.cpp's name."),
        Field("n", Whole(1, 16), "How many answers.", default=1),
        Field("stream", Flag(), "Server-sent events as it is written.", default=False),
        STREAM_OPTIONS,
        Field("logprobs", Flag(), "How likely each token was.", default=False),
        Field("top_logprobs", Whole(0, MOST_ALTERNATIVES), "And so many others in its place."),
        Field("response_format", FORMAT),
        *TOOL_FIELDS,
        *SAMPLING,
        GRAMMAR,
        JSON_SCHEMA,
        Field("reasoning_effort", Text(choices=EFFORTS), "none: the model is not to think."),
        Field(
            "chat_template_kwargs",
            Record("TemplateSwitches", (Field("enable_thinking", Flag()),), open=True),
            "enable_thinking: as reasoning_effort.",
        ),
        Field("continue_final_message", Flag(), "The last message, an assistant's, goes on."),
        Field("add_generation_prompt", Flag(), "Has no effect here."),
        USER,
        *WITHOUT_EFFECT,
        Field("modalities", ListOf(Text(choices=("text",)), most=1), "Text only."),
        Field("verbosity", Text(), "Has no effect here."),
        Field("prediction", OneOf((AnyObject(), Anything())), "Has no effect here."),
        *OF_ALL,
        *OF_CHAT,
    ),
)


class ChatPlan(Struct, frozen=True):
    """What a request comes to."""

    request: AnswerRequest  # of the first choice
    choices: int
    tools: ToolPlan
    top_logprobs: int | None  # None: likelihoods are not asked for

    def requests(self, response: str) -> list[AnswerRequest]:
        return [
            replace(
                self.request,
                response=name_of(response, index),
                sampling=of_choice(self.request.sampling, index),
            )
            for index in range(self.choices)
        ]


def chat_plan(call: Call) -> ChatPlan:
    """FieldProblem."""
    body, model = call.body, call.service.model
    tools = tool_plan(body, model)
    most = body["max_completion_tokens"] or body["max_tokens"] or body["n_predict"]
    form = form_of(body, "response_format", body["response_format"])
    sampling = formatted(sampling_of(body, most, model), form, tools)
    top = (body["top_logprobs"] or 0) if body["logprobs"] else None
    if body["top_logprobs"] and top is None:
        raise FieldProblem("top_logprobs", "needs logprobs to be true")
    messages = messages_of(body["messages"])
    goes_on = bool(body["continue_final_message"])
    if goes_on and messages[-1].role != "assistant":
        raise FieldProblem("continue_final_message", "needs an assistant's message at the end")
    request = AnswerRequest(
        response="",
        messages=tools.told(messages),
        sampling=sampling,
        tools=tools.offered,
        thinking=thinks(body),
        continue_last=goes_on,
        alternatives=top or 0,
        client=call.client,
    )
    return ChatPlan(request, body["n"], tools, top)


def thinks(body: dict[str, Any]) -> bool:
    switch = (body["chat_template_kwargs"] or {}).get("enable_thinking")
    return switch if switch is not None else body["reasoning_effort"] not in ("none", "minimal")


def tool_plan(body: dict[str, Any], model: ModelInfo) -> ToolPlan:
    specs = specs_of([tool["function"] for tool in body["tools"] or ()])
    choice = choice_of(body["tool_choice"])
    return plan_of(specs, choice, model, parallel=body["parallel_tool_calls"])


def form_of(body: dict[str, Any], name: str, form: dict[str, Any] | None) -> dict[str, Any] | None:
    """The form that the answer keeps to, and the field that says it: `form`, of the field `name`,
    or json_schema."""
    schema = body["json_schema"]
    if schema is None:
        return None if form is None else {**form, "field": name}
    if body["grammar"]:
        raise FieldProblem("grammar", "cannot be used with json_schema")
    if form is not None and form["type"] != "text":
        raise FieldProblem("json_schema", f"cannot be used with {name}")
    return {
        "type": "json_schema",
        "json_schema": None,
        "schema": schema,
        "field": "json_schema",
    }


def formatted(
    sampling: SamplingOptions, form: dict[str, Any] | None, tools: ToolPlan
) -> SamplingOptions:
    """With the schema that the answer keeps to; FieldProblem where that is several things."""
    kind = form["type"] if form else "text"
    if form is not None and kind != "text" and sampling.grammar:
        raise FieldProblem("grammar", f"cannot be used with {form['field']}")
    if tools.schema:
        return replace(sampling, json_schema=tools.schema, grammar="")
    if form is None or kind == "text":
        return sampling
    if tools.specs:
        problem = (
            "cannot be used with tools that may be called: set tool_choice to none or required"
        )
        raise FieldProblem(form["field"], problem)
    schema = form["schema"]
    if schema is None and kind == "json_object":
        schema = {"type": "object"}
    elif schema is None:
        if form["json_schema"] is None:
            raise FieldProblem("response_format.json_schema", "is missing: expected an object")
        schema = form["json_schema"]["schema"] or {}
    return replace(sampling, json_schema=json.dumps(schema, ensure_ascii=False))
