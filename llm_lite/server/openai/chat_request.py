"""The body of a request to /v1/chat/completions: `ChatCompletionRequest`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import MOST_ALTERNATIVES, AnswerRequest, ModelInfo, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.core.tools.kept_schema import left_to_the_model
from llm_lite.server.call import Call
from llm_lite.server.openai.messages import MADE_HERE, Messages, messages_of, unread_types
from llm_lite.server.openai.request import (
    Choices,
    NoEffect,
    StreamOptions,
    TokenLimit,
    WithoutCall,
    WithoutList,
    WithoutObject,
    interventions_of,
)
from llm_lite.server.openai.running import name_of
from llm_lite.server.openai.sampling import SamplingBody, of_choice, sampling_of
from llm_lite.server.openai.template_values import AskedEffort, AskedValues, Effort, TemplateValues
from llm_lite.server.openai.tools import (
    ParallelCalls,
    ToolChoice,
    ToolChosen,
    ToolList,
    ToolPlan,
    Tools,
    Whether,
    choice_of,
    plan_of,
    specs_of,
    tools_left_out,
)
from llm_lite.server.schema import about

TopLogprobs = Annotated[int, Meta(ge=0, le=MOST_ALTERNATIVES)]
FormatType = Literal["text", "json_object", "json_schema"]
AnswerSchema = Annotated[dict[str, Any] | None, about("The answer is JSON of this schema.")]


class NamedSchema(Struct):
    name: str | None = None
    schema: AnswerSchema = None
    description: str | None = None
    strict: Annotated[bool | None, about("It always is.")] = None


class ResponseFormat(Struct):
    type: FormatType
    json_schema: NamedSchema | None = None
    schema: Annotated[
        dict[str, Any] | None, about("The same without a name, as llama.cpp's server takes it.")
    ] = None


class ChatCompletionRequest(SamplingBody, kw_only=True):
    messages: Messages
    max_completion_tokens: Annotated[
        TokenLimit | None, about("Without it, or -1: up to the context's end.")
    ] = None
    max_tokens: Annotated[TokenLimit | None, about("The same, by its older name.")] = None
    n_predict: Annotated[TokenLimit | None, about("The same, by llama.cpp's name.")] = None
    n: Annotated[Choices, about("How many answers.")] = 1
    stream_options: StreamOptions | None = None
    logprobs: Annotated[bool, about("How likely each token was.")] = False
    top_logprobs: Annotated[TopLogprobs | None, about("And so many others in its place.")] = None
    response_format: ResponseFormat | None = None
    tools: Tools = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: ParallelCalls = True
    reasoning_effort: AskedEffort = None
    chat_template_kwargs: AskedValues = None
    continue_final_message: Annotated[
        bool | None, about("The last message, an assistant's, goes on.")
    ] = None
    add_generation_prompt: Annotated[bool | None, about("Has no effect here.")] = None
    modalities: Annotated[
        Annotated[list[Literal["text"]], Meta(max_length=1)] | None, about("Text only.")
    ] = None
    verbosity: NoEffect = None
    prediction: Annotated[Any, about("Has no effect here.")] = None
    # By OpenAI's names, older and newer: functions, a voice, a search.
    functions: WithoutList = None
    function_call: WithoutCall = None
    audio: WithoutObject = None
    web_search_options: WithoutObject = None

    def unkept(self) -> list[str]:
        contents = (one.content for one in self.messages if one.role in MADE_HERE)
        unread = [f"messages.{kind}" for content in contents for kind in unread_types(content)]
        form = unkept_of(response_form(self.response_format))
        return [*super().unkept(), *form, *tools_left_out(self.tools), *unread]


class ChatPlan(Struct, frozen=True):
    """A plan is what a request comes to."""

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


def chat_plan(call: Call, model: ModelInfo) -> ChatPlan:
    """Return what a request comes to; CheckError where it cannot be done."""
    body: ChatCompletionRequest = call.body
    tools = tool_plan(body, model)
    most = body.max_completion_tokens or body.max_tokens or body.n_predict
    form = form_of(body, "response_format", response_form(body.response_format))
    sampling = formatted(sampling_of(body, most, model), form, tools)
    top = (body.top_logprobs or 0) if body.logprobs else None
    if body.top_logprobs and top is None:
        raise CheckError("top_logprobs", "needs logprobs to be true")
    messages = messages_of(body.messages)
    goes_on = bool(body.continue_final_message)
    if goes_on and messages[-1].role != "assistant":
        raise CheckError("continue_final_message", "needs an assistant's message at the end")
    given = values_of(call, body, model)
    request = AnswerRequest(
        response="",
        messages=tools.with_functions(messages),
        sampling=sampling,
        tools=tools.offered,
        thinking=given.thinks,
        values=given.values,
        continue_last=goes_on,
        alternatives=top or 0,
        client=call.client,
        interventions=interventions_of(body, model),
        calls=tools.calls,
    )
    return ChatPlan(request, body.n, or_answer(tools, sampling), top)


class WithValues(Protocol):
    reasoning_effort: Effort | None
    chat_template_kwargs: dict[str, Any] | None


def values_of(call: Call, body: WithValues, model: ModelInfo) -> TemplateValues:
    """Return the values that a request gives to the template; note those that it does not read."""
    given = TemplateValues.of(body.reasoning_effort, body.chat_template_kwargs)
    call.unread.extend(given.unread(model, "reasoning_effort", "chat_template_kwargs."))
    return given


class WithTools(Protocol):
    tools: ToolList | None
    tool_choice: Whether | ToolChosen | None
    parallel_tool_calls: bool


def tool_plan(body: WithTools, model: ModelInfo) -> ToolPlan:
    items = body.tools.items if body.tools else ()
    specs = specs_of((place, tool.function) for place, tool in items)
    return plan_of(specs, choice_of(body.tool_choice), model, parallel=body.parallel_tool_calls)


class AnswerForm(Struct, frozen=True):
    """An answer keeps to this form, which the request's field `field` gives."""

    type: FormatType
    schema: dict[str, Any] | None
    field: str


def unkept_of(form: AnswerForm | None) -> list[str]:
    """Return the keywords of a form's schema that an answer is not held to, by their fields."""
    if form is None or form.schema is None:
        return []
    return [f"{form.field}.{name}" for name in left_to_the_model(form.schema)]


def form_of(body: SamplingBody, name: str, form: AnswerForm | None) -> AnswerForm | None:
    """Return the form that the answer keeps to: `form`, of the field `name`, or json_schema."""
    if body.json_schema is None:
        return form
    if body.grammar:
        raise CheckError("grammar", "cannot be used with json_schema")
    if form is not None and form.type != "text":
        raise CheckError("json_schema", f"cannot be used with {name}")
    return AnswerForm("json_schema", body.json_schema, "json_schema")


def response_form(given: ResponseFormat | None) -> AnswerForm | None:
    if given is None:
        return None
    schema = given.schema
    if schema is None and given.type == "json_schema" and given.json_schema is not None:
        schema = given.json_schema.schema or {}
    return AnswerForm(given.type, schema, "response_format")


def or_answer(tools: ToolPlan, sampling: SamplingOptions) -> ToolPlan:
    """Return the plan, with whether an answer without a call keeps to a form."""
    has_form = bool(sampling.json_schema or sampling.grammar)
    return replace(tools, or_answer=has_form and not tools.schema)


def formatted(
    sampling: SamplingOptions, form: AnswerForm | None, tools: ToolPlan
) -> SamplingOptions:
    """Return the options with the schema that the answer keeps to; CheckError where that is
    several things."""
    kind = form.type if form else "text"
    if form is not None and kind != "text" and sampling.grammar:
        raise CheckError("grammar", f"cannot be used with {form.field}")
    if tools.schema:
        return replace(sampling, json_schema=tools.schema, grammar="")
    if form is None or kind == "text":
        return sampling
    schema = form.schema
    if schema is None:
        if kind == "json_schema":
            raise CheckError("response_format.json_schema", "is missing: expected an object")
        schema = {"type": "object"}
    schema = tools.or_call(schema)
    return replace(sampling, json_schema=json.dumps(schema, ensure_ascii=False))
