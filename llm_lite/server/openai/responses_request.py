"""The body of a request to /v1/responses: `ResponseRequest`."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    ModelInfo,
    Role,
    ToolCall,
)
from llm_lite.server.call import Call
from llm_lite.server.openai.chat_request import (
    AnswerForm,
    AnswerSchema,
    ChatPlan,
    FormatType,
    SchemaName,
    TopLogprobs,
    form_of,
    formatted,
    or_answer,
    unkept_of,
)
from llm_lite.server.openai.messages import (
    MOST_MESSAGES,
    CallId,
    Content,
    NameText,
    text_of,
)
from llm_lite.server.openai.request import (
    MOST_LISTED,
    FullText,
    TokenLimit,
    WithoutObject,
    gains_of,
)
from llm_lite.server.openai.sampling import SamplingBody, sampling_of
from llm_lite.server.openai.template_values import Effort, TemplateValues
from llm_lite.server.openai.tools import (
    MOST_TOOLS,
    CallChoice,
    Description,
    ParallelCalls,
    Parameters,
    ToolPlan,
    Whether,
    plan_of,
    specs_of,
)
from llm_lite.server.schema import about

Included = Literal["message.output_text.logprobs", "reasoning.encrypted_content"]
Kept = about("Responses are not kept: expected none.")


class InputItem(Struct):
    type: Literal["message", "function_call", "function_call_output", "reasoning"] | None = (
        "message"
    )
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Content | None = None
    call_id: Annotated[CallId | None, about("Of a call, and of its output.")] = None
    name: Annotated[NameText | None, about("Of a call: the function.")] = None
    arguments: Annotated[str | None, about("Of a call: an object of JSON, as a text.")] = None
    output: Annotated[Content | None, about("Of a call: what the function gave.")] = None


class ResponseTool(Struct):
    type: Annotated[Literal["function"], about("Nothing else is run here.")]
    name: NameText
    description: Description | None = None
    parameters: Parameters = None


class ResponseToolNamed(Struct):
    type: Literal["function"]
    name: NameText


class ResponseToolChosen(Struct, omit_defaults=True):
    type: Literal["function", "allowed_tools"]
    name: Annotated[NameText | None, about("This one is called.")] = None
    mode: Annotated[
        Literal["auto", "required"] | None, about("Of allowed tools: whether one is called.")
    ] = None
    tools: Annotated[
        Annotated[list[ResponseToolNamed], Meta(min_length=1)] | None,
        about("Only these may be called."),
    ] = None


class TextFormat(Struct):
    type: FormatType
    name: SchemaName | None = None
    schema: AnswerSchema = None


class TextOptions(Struct):
    format: TextFormat | None = None


class Reasoning(Struct):
    effort: Effort | None = None


class ResponseRequest(SamplingBody, kw_only=True):
    input: Annotated[
        FullText | Annotated[list[InputItem], Meta(min_length=1, max_length=MOST_MESSAGES)],
        about("A text, or a conversation."),
    ]
    instructions: Annotated[str | None, about("Stand before the conversation.")] = None
    max_output_tokens: Annotated[
        TokenLimit | None, about("Without it, up to the context's end.")
    ] = None
    stream_options: Annotated[dict[str, Any] | None, about("Has no effect here.")] = None
    text: TextOptions | None = None
    tools: Annotated[list[ResponseTool], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: Whether | ResponseToolChosen | None = None
    parallel_tool_calls: ParallelCalls = True
    reasoning: Reasoning | None = None
    include: Annotated[
        Annotated[list[Included], Meta(max_length=MOST_LISTED)] | None,
        about("Likelihoods of tokens, if asked."),
    ] = None
    top_logprobs: TopLogprobs | None = None
    previous_response_id: Annotated[str | None, Kept] = None
    conversation: Annotated[str | dict[str, Any] | None, Kept] = None
    background: Annotated[
        bool | None, about("Answers are made at once: expected none, or false.")
    ] = None
    truncation: Annotated[Literal["disabled", "auto"] | None, about("Nothing is left out.")] = None
    max_tool_calls: Annotated[Any, about("Has no effect here: no function is run.")] = None
    prompt: WithoutObject = None
    response_format: Annotated[Any, about("Of chats: here it is text.format.")] = None

    def unkept(self) -> list[str]:
        form = self.text.format if self.text else None
        schema = form.schema if form else None
        return [*super().unkept(), *unkept_of(AnswerForm("json_schema", schema, "text.format"))]


def response_plan(call: Call) -> ChatPlan:
    """Return what a request comes to; CheckError where it cannot be done."""
    body: ResponseRequest = call.body
    model = call.service.model
    for name in ("previous_response_id", "conversation"):
        if getattr(body, name) is not None:
            raise CheckError(name, "responses are not kept: send the conversation itself")
    if (body.response_format or {"type": "text"}) != {"type": "text"}:
        raise CheckError("response_format", "is of chats: expected text.format")
    if body.background:
        raise CheckError("background", "answers are made at once: expected false")
    tools = _tools(body, model)
    sampling = sampling_of(body, body.max_output_tokens, model)
    top = body.top_logprobs
    if top is None and "message.output_text.logprobs" in (body.include or ()):
        top = 0
    given = TemplateValues.of(effort_of(body), None)
    call.unread.extend(given.unread(model, "reasoning.effort", ""))
    request = AnswerRequest(
        response=f"resp_{secrets.token_hex(16)}",
        messages=tools.with_functions(_messages(body)),
        sampling=formatted(sampling, form_of(body, "text.format", _form(body)), tools),
        tools=tools.offered,
        thinking=given.thinks,
        values=given.values,
        alternatives=top or 0,
        client=call.client,
        gains=gains_of(body, model),
        calls=tools.calls,
    )
    return ChatPlan(request, 1, or_answer(tools, request.sampling), top)


def effort_of(body: ResponseRequest) -> Effort | None:
    return body.reasoning.effort if body.reasoning else None


def _tools(body: ResponseRequest, model: ModelInfo) -> ToolPlan:
    specs = specs_of(body.tools or ())
    choice = _choice(body.tool_choice)
    return plan_of(specs, choice, model, parallel=body.parallel_tool_calls)


def _choice(given: Whether | ResponseToolChosen | None) -> CallChoice:
    if not isinstance(given, ResponseToolChosen):
        return CallChoice(given)
    needed = ("name",) if given.type == "function" else ("mode", "tools")
    for name in needed:
        if getattr(given, name) is None:
            raise CheckError(f"tool_choice.{name}", "is missing")
    if given.type == "function":
        return CallChoice(f"={given.name}")
    return CallChoice(given.mode, tuple(tool.name for tool in given.tools or ()))


def _form(body: ResponseRequest) -> AnswerForm | None:
    form = body.text.format if body.text else None
    if form is None:
        return None
    if form.type == "json_schema" and form.schema is None:
        raise CheckError("text.format.schema", "is missing: expected an object")
    schema = form.schema if form.type == "json_schema" else None
    return AnswerForm(form.type, schema, "text.format")


def _messages(body: ResponseRequest) -> tuple[ChatMessage, ...]:
    lead = (ChatMessage("system", body.instructions),) if body.instructions else ()
    if isinstance(body.input, str):
        return (*lead, ChatMessage("user", body.input))
    builder = _MessageBuilder()
    for index, item in enumerate(body.input):
        builder.add(item, f"input[{index}]")
    messages = builder.messages()
    if not messages:
        raise CheckError("input", "has no message and no call")
    return (*lead, *messages)


class _MessageBuilder:
    """A builder of messages from items: calls that follow each other become one assistant's, and
    results stand in the order of their calls."""

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._calls: list[tuple[str, ToolCall]] = []
        self._results: dict[str, str] = {}

    def messages(self) -> list[ChatMessage]:
        self._close()
        return self._messages

    def add(self, item: InputItem, at: str) -> None:
        match item.type:
            case "function_call":
                self._add_call(item, at)
            case "function_call_output":
                self._add_result(item, at)
            case "message" | None:
                self._add_message(item, at)

    def _add_call(self, item: InputItem, at: str) -> None:
        if item.call_id is None or item.name is None or item.arguments is None:
            parts = ("call_id", "name", "arguments")
            missing = next(name for name in parts if getattr(item, name) is None)
            raise CheckError(f"{at}.{missing}", "is missing: expected a text")
        if self._results:
            self._close()
        self._calls.append((item.call_id, ToolCall(item.name, item.arguments)))

    def _add_result(self, item: InputItem, at: str) -> None:
        number = item.call_id
        if number is None or number not in {known for known, _ in self._calls}:
            raise CheckError(f"{at}.call_id", "is none of the calls before it")
        self._results[number] = text_of(item.output, f"{at}.output")

    def _add_message(self, item: InputItem, at: str) -> None:
        role = item.role
        if role is None or item.content is None:
            missing = "role" if role is None else "content"
            raise CheckError(f"{at}.{missing}", "is missing: expected a text")
        self._close()
        text = text_of(item.content, f"{at}.content")
        known: Role = "system" if role == "developer" else role
        self._messages.append(ChatMessage(known, text))

    def _close(self) -> None:
        """Make one message of the calls so far, and one of each result."""
        if not self._calls:
            return
        calls = tuple(call for _, call in self._calls)
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "assistant" and not last.calls:
            self._messages[-1] = ChatMessage("assistant", last.content, calls=calls)
        else:
            self._messages.append(ChatMessage("assistant", "", calls=calls))
        for number, call in self._calls:
            if number in self._results:
                text = self._results[number]
                self._messages.append(ChatMessage("tool", text, name=call.name))
        self._calls, self._results = [], {}
