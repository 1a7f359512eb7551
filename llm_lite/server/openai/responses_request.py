"""The body of a request to /v1/responses: `ResponseRequest`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    ModelInfo,
    Role,
    ToolCall,
)
from llm_lite.core.records import replace
from llm_lite.server.call import Call
from llm_lite.server.openai.chat_request import (
    AnswerForm,
    AnswerSchema,
    ChatPlan,
    FormatType,
    TopLogprobs,
    form_of,
    formatted,
    or_answer,
    unkept_of,
)
from llm_lite.server.openai.messages import (
    CallId,
    Content,
    NameText,
    result_of,
    said_of,
    text_of,
    unread_types,
)
from llm_lite.server.openai.request import (
    MOST_LISTED,
    FullText,
    TokenLimit,
    WithoutObject,
    interventions_of,
)
from llm_lite.server.openai.sampling import SamplingBody, sampling_of
from llm_lite.server.openai.template_values import Effort, TemplateValues
from llm_lite.server.openai.tools import (
    CallChoice,
    ParallelCalls,
    Parameters,
    ToolPlan,
    Whether,
    plan_of,
    specs_of,
    tools_left_out,
)
from llm_lite.server.schema import Custom, Schema, Typed, about, components, read

LOGPROBS = "message.output_text.logprobs"
_INCLUDED = (LOGPROBS, "reasoning.encrypted_content")  # nothing else can be asked for
Kept = about("Responses are not kept: expected none.")


class InputItem(Struct):
    type: Literal["message", "function_call", "function_call_output", "reasoning"] | None = (
        "message"
    )
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Content | None = None
    call_id: Annotated[CallId | None, about("Of a call, and of its output.")] = None
    name: Annotated[NameText | None, about("Of a call: the function.")] = None
    namespace: Annotated[NameText | None, about("Of a call: that of the function.")] = None
    arguments: Annotated[str | None, about("Of a call: an object of JSON, as a text.")] = None
    output: Annotated[Content | None, about("Of a call: what the function gave.")] = None

    @property
    def thought(self) -> str:
        """Return the text of a reasoning item; "" where it is encrypted, or only a summary."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text or "" for part in self.content)


class InputItems(Typed):
    kinds: ClassVar = dict.fromkeys(
        ("message", "function_call", "function_call_output", "reasoning"), InputItem
    )


class Input(Custom):
    """A value is a text, or a conversation of items."""

    def __init__(self, text: str, items: InputItems | None) -> None:
        self.text, self.items = text, items

    @classmethod
    def read(cls, value: Any) -> Self:
        if not isinstance(value, list):
            return cls(read(FullText, value), None)
        if not value:
            raise CheckError("", "expected at least one item")
        return cls("", InputItems.read(value))

    @classmethod
    def schema(cls) -> Schema:
        text = components([FullText])[0][0]
        return {"anyOf": [text, {**InputItems.schema(), "minItems": 1}]}

    def left_out(self) -> list[str]:
        if self.items is None:
            return []
        contents = (
            item.content if item.role == "assistant" else item.output
            for _, item in self.items.items
        )
        unread = [kind for content in contents for kind in unread_types(content)]
        return [f"input.{kind}" for kind in (*self.items.left_out, *unread)]


class ResponseTool(Struct):
    name: NameText
    type: Annotated[Literal["function"], about("Nothing else is run here.")] = "function"
    description: str | None = None
    parameters: Parameters = None
    strict: Annotated[
        bool | None, about("Arguments keep to the schema where the call is demanded.")
    ] = None


class FunctionList(Typed):
    kinds: ClassVar = {"function": ResponseTool}


class ToolNamespace(Struct):
    """Functions that a call names together with their namespace, as those of an MCP server."""

    type: Literal["namespace"]
    name: NameText
    tools: FunctionList
    description: str | None = None


class ResponseTools(Typed):
    kinds: ClassVar = {"function": ResponseTool, "namespace": ToolNamespace}

    def functions(self) -> Iterator[tuple[int, ResponseTool]]:
        """Yield all functions, by the names under which a model knows them, each with its place."""
        for place, tool in self.items:
            if isinstance(tool, ResponseTool):
                yield place, tool
                continue
            for _, one in tool.tools.items:
                yield place, replace(one, name=name_within(tool.name, one.name))

    def namespaces(self) -> dict[str, tuple[str, str]]:
        """Return the namespace and the name of each function that has one, by the model's name."""
        return {
            name_within(tool.name, one.name): (tool.name, one.name)
            for _, tool in self.items
            if isinstance(tool, ToolNamespace)
            for _, one in tool.tools.items
        }

    def unkept(self) -> list[str]:
        within = [
            f"tools.namespace.{kind}"
            for _, tool in self.items
            if isinstance(tool, ToolNamespace)
            for kind in tool.tools.left_out
        ]
        return [*tools_left_out(self), *within]


def name_within(namespace: str, name: str) -> str:
    return f"{namespace}.{name}"


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
    name: str | None = None
    schema: AnswerSchema = None
    description: str | None = None
    strict: Annotated[bool | None, about("It always is.")] = None


class TextOptions(Struct):
    format: TextFormat | None = None


class Reasoning(Struct):
    effort: Effort | None = None


class ResponseRequest(SamplingBody, kw_only=True):
    input: Annotated[Input, about("A text, or a conversation.")]
    instructions: Annotated[str | None, about("Stand before the conversation.")] = None
    max_output_tokens: Annotated[
        TokenLimit | None, about("Without it, up to the context's end.")
    ] = None
    stream_options: Annotated[dict[str, Any] | None, about("Has no effect here.")] = None
    text: TextOptions | None = None
    tools: Annotated[ResponseTools | None, about("Functions that the model may call.")] = None
    tool_choice: Whether | ResponseToolChosen | None = None
    parallel_tool_calls: ParallelCalls = True
    reasoning: Reasoning | None = None
    include: Annotated[
        Annotated[list[str], Meta(max_length=MOST_LISTED)] | None,
        about(f"{LOGPROBS}: likelihoods of tokens."),
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
        schema = unkept_of(AnswerForm("json_schema", form.schema if form else None, "text.format"))
        included = [f"include.{one}" for one in self.include or () if one not in _INCLUDED]
        tools = self.tools.unkept() if self.tools else []
        left_out = [*tools, *self.input.left_out(), *included]
        return [*super().unkept(), *schema, *left_out]


def response_plan(call: Call, model: ModelInfo) -> ChatPlan:
    """Return what a request comes to; CheckError where it cannot be done."""
    body: ResponseRequest = call.body
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
    if top is None and LOGPROBS in (body.include or ()):
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
        interventions=interventions_of(body, model),
        calls=tools.calls,
    )
    return ChatPlan(request, 1, or_answer(tools, request.sampling), top)


def effort_of(body: ResponseRequest) -> Effort | None:
    return body.reasoning.effort if body.reasoning else None


def _tools(body: ResponseRequest, model: ModelInfo) -> ToolPlan:
    specs = specs_of(body.tools.functions() if body.tools else ())
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
    if body.input.items is None:
        return (*lead, ChatMessage("user", body.input.text))
    builder = _MessageBuilder()
    for index, item in body.input.items.items:
        builder.add(item, f"input[{index}]")
    messages = builder.messages()
    if not messages:
        raise CheckError("input", "has no message and no call")
    return (*lead, *messages)


class _Calls:
    """Calls that follow each other, and their results, which stand in the same order."""

    def __init__(self, thought: str) -> None:
        self.thought = thought
        self.calls: dict[str, ToolCall] = {}  # by id
        self.results: dict[str, str] = {}

    def messages(self, before: ChatMessage | None) -> list[ChatMessage]:
        """Return the calls as one message, which goes on with an assistant's `before` it."""
        calls = tuple(self.calls.values())
        if before is not None:
            called = replace(before, calls=calls, thought=before.thought + self.thought)
        else:
            called = ChatMessage("assistant", "", thought=self.thought, calls=calls)
        results = (
            ChatMessage("tool", self.results[number], name=call.name)
            for number, call in self.calls.items()
            if number in self.results
        )
        return [called, *results]


class _MessageBuilder:
    """A builder of messages from items: thoughts and calls that follow each other become one
    assistant's, and results stand behind their calls, wherever they come."""

    def __init__(self) -> None:
        self._turns: list[ChatMessage | _Calls] = []
        self._thought = ""  # of the assistant's message that follows
        self._made: dict[str, _Calls] = {}  # by the id of a call

    def messages(self) -> list[ChatMessage]:
        found: list[ChatMessage] = []
        for turn in self._turns:
            if isinstance(turn, ChatMessage):
                found.append(turn)
                continue
            last = found[-1] if found else None
            goes_on = last is not None and last.role == "assistant" and not last.calls
            found += turn.messages(found.pop() if goes_on else None)
        return found

    def add(self, item: InputItem, at: str) -> None:
        match item.type:
            case "reasoning":
                self._thought += item.thought
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
        last = self._turns[-1] if self._turns else None
        goes_on = isinstance(last, _Calls) and item.call_id not in last.calls and not last.results
        if not isinstance(last, _Calls) or not goes_on or self._thought:
            last, self._thought = _Calls(self._thought), ""
            self._turns.append(last)
        name = name_within(item.namespace, item.name) if item.namespace else item.name
        last.calls[item.call_id] = ToolCall(name, item.arguments)
        self._made[item.call_id] = last

    def _add_result(self, item: InputItem, at: str) -> None:
        number = item.call_id
        if number is None or number not in self._made:
            raise CheckError(f"{at}.call_id", "is none of the calls before it")
        self._made[number].results[number] = result_of(item.output, f"{at}.output")

    def _add_message(self, item: InputItem, at: str) -> None:
        role = item.role
        if role is None or item.content is None:
            missing = "role" if role is None else "content"
            raise CheckError(f"{at}.{missing}", "is missing: expected a text")
        read_content = said_of if role == "assistant" else text_of
        text = read_content(item.content, f"{at}.content")
        known: Role = "system" if role == "developer" else role
        thought, self._thought = self._thought, ""
        self._turns.append(ChatMessage(known, text, thought=thought if role == "assistant" else ""))
