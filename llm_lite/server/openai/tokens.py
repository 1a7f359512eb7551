"""/tokenize and /detokenize, as llama.cpp's and vLLM's servers have them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.openai.chat_request import tool_plan
from llm_lite.server.openai.completions import TOKENS
from llm_lite.server.openai.messages import MESSAGE, MOST_MESSAGES, messages_of
from llm_lite.server.openai.running import MODEL
from llm_lite.server.openai.tools import TOOL_FIELDS
from llm_lite.server.tables.kinds import FieldProblem, Flag, ListOf, Text
from llm_lite.server.tables.records import Field, request_body

TOKENIZE = request_body(
    "TokenizeRequest",
    (
        MODEL,
        Field("content", Text(), "A text."),
        Field("prompt", Text(), "The same, by vLLM's name."),
        Field("messages", ListOf(MESSAGE, least=1, most=MOST_MESSAGES), "Or a conversation."),
        *TOOL_FIELDS,
        Field("add_special", Flag(), "With the begin token where the model wants it."),
        Field("add_special_tokens", Flag(), "The same, by vLLM's name."),
        Field("with_pieces", Flag(), "With what each token stands for.", default=False),
    ),
)
DETOKENIZE = request_body(
    "DetokenizeRequest",
    (MODEL, Field("tokens", ListOf(TOKENS.kind), "Ids.", True)),
)


async def tokenize(call: Call) -> Response:
    body, service = call.body, call.service
    given = [name for name in ("content", "prompt", "messages") if body[name] is not None]
    if len(given) != 1:
        raise FieldProblem("content", f"expected one of content and messages, found {len(given)}")
    if given == ["messages"]:
        messages = messages_of(body["messages"])
        tools = tool_plan(body, service.model)

        def work() -> list[int]:
            return service.prompt_tokens(tools.told(messages), tools.offered)
    else:
        text, special = body[given[0]], _special(body)

        def work() -> list[int]:
            return service.tokenize(text, special)

    tokens = await call.apart(lambda _: work())
    found: dict[str, Any] = {"tokens": tokens, "count": len(tokens)}
    found["max_model_len"] = service.status().context or service.model.context
    if body["with_pieces"]:
        found["pieces"] = await call.apart(lambda _: service.token_texts(tokens))
    return json_response(found)


def _special(body: dict[str, Any]) -> bool:
    """llama.cpp's default is no, vLLM's is yes."""
    if body["add_special"] is not None:
        return bool(body["add_special"])
    if body["add_special_tokens"] is not None:
        return bool(body["add_special_tokens"])
    return body["prompt"] is not None


async def detokenize(call: Call) -> Response:
    service, tokens = call.service, call.body["tokens"]
    text = await call.apart(lambda _: service.detokenize(tokens))
    return json_response({"content": text, "prompt": text})
