"""/tokenize and /detokenize answer as those of llama.cpp's and vLLM's servers."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.openai.chat_request import tool_plan, values_of
from llm_lite.server.openai.messages import Messages, messages_of
from llm_lite.server.openai.request import MOST_LISTED, ModelBody, TokenId
from llm_lite.server.openai.template_values import AskedEffort, AskedValues
from llm_lite.server.openai.tools import ParallelCalls, ToolChoice, Tools, tools_left_out
from llm_lite.server.schema import Count, about


class TokenizeRequest(ModelBody, kw_only=True):
    content: Annotated[str | None, about("A text.")] = None
    prompt: Annotated[str | None, about("The same, by vLLM's name.")] = None
    messages: Annotated[Messages | None, about("Or a conversation.")] = None
    tools: Tools = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: ParallelCalls = True
    reasoning_effort: AskedEffort = None
    chat_template_kwargs: AskedValues = None
    add_special: Annotated[bool | None, about("With the begin token where the model wants it.")] = (
        None
    )
    add_special_tokens: Annotated[bool | None, about("The same, by vLLM's name.")] = None
    with_pieces: Annotated[bool, about("With what each token stands for.")] = False

    def unkept(self) -> list[str]:
        return [*super().unkept(), *tools_left_out(self.tools)]


class DetokenizeRequest(ModelBody, kw_only=True):
    tokens: Annotated[list[TokenId], Meta(max_length=MOST_LISTED, description="Ids.")]


class Tokens(Struct, kw_only=True):
    tokens: list[Count]
    count: Count
    max_model_len: Count
    pieces: list[str] | UnsetType = UNSET


class TokensText(Struct):
    content: str
    prompt: str


async def tokenize(call: Call) -> Response:
    body: TokenizeRequest = call.body
    service = call.service
    texts = {"content": body.content, "prompt": body.prompt, "messages": body.messages}
    given = [name for name, one in texts.items() if one is not None]
    if len(given) != 1:
        raise CheckError("content", f"expected one of content and messages, found {len(given)}")
    if (given_messages := body.messages) is not None:
        values = values_of(call, body, service.model)

        def work() -> list[int]:
            tools = tool_plan(body, service.model)
            messages = tools.with_functions(messages_of(given_messages))
            return service.prompt_tokens(messages, tools.offered, values.thinks, values.values)
    else:
        of_templates = ("reasoning_effort", "chat_template_kwargs")
        call.unread.extend(name for name in of_templates if getattr(body, name) is not None)
        text, special = body.content or body.prompt or "", _special(body)

        def work() -> list[int]:
            return service.tokenize(text, special)

    tokens = await call.in_thread(lambda _: work())
    context = service.status().context or service.model.context
    found = Tokens(tokens=tokens, count=len(tokens), max_model_len=context)
    if body.with_pieces:
        found.pieces = await call.in_thread(lambda _: service.token_texts(tokens))
    return json_response(found)


def _special(body: TokenizeRequest) -> bool:
    """Return whether the begin token is wanted: llama.cpp's default is no, vLLM's is yes."""
    if body.add_special is not None:
        return body.add_special
    if body.add_special_tokens is not None:
        return body.add_special_tokens
    return body.prompt is not None


async def detokenize(call: Call) -> Response:
    service, tokens = call.service, call.body.tokens
    text = await call.in_thread(lambda _: service.detokenize(tokens))
    return json_response(TokensText(text, text))
