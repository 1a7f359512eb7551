"""/v1/embeddings: texts to vectors."""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any

import numpy as np
from starlette.responses import Response

from llm_lite.core.errors import RequestError
from llm_lite.core.serving.service import F32
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.inbox import ClientLeft
from llm_lite.server.openai.completions import TOKENS
from llm_lite.server.openai.running import MODEL, USER, model_id
from llm_lite.server.tables.kinds import FieldProblem, ListOf, OneOf, Text, Whole
from llm_lite.server.tables.records import Field, request_body

MOST_TEXTS = 256
_TEXT = Text(least=1)
EMBEDDING = request_body(
    "EmbeddingRequest",
    (
        MODEL,
        Field(
            "input",
            OneOf(
                (
                    _TEXT,
                    TOKENS,
                    ListOf(_TEXT, least=1, most=MOST_TEXTS),
                    ListOf(TOKENS, least=1, most=MOST_TEXTS),
                )
            ),
            "A text, its tokens, or several of either.",
            True,
        ),
        Field("encoding_format", Text(choices=("float", "base64")), default="float"),
        Field("dimensions", Whole(1, 1 << 20), "Expected as many as the model has."),
        USER,
    ),
)


async def embeddings(call: Call) -> Response:
    body, service = call.body, call.service
    width = service.model.width
    if body["dimensions"] not in (None, width):
        raise FieldProblem("dimensions", f"this model's vectors have {width}")
    given = body["input"]
    texts = [given] if isinstance(given, str) or isinstance(given[0], int) else given

    left = threading.Event()

    def work() -> tuple[F32, int]:
        tokens = [service.tokenize(t) if isinstance(t, str) else t for t in texts]
        made = service.embed(tokens, left.is_set)
        return made.vectors, made.tokens

    watcher = asyncio.create_task(_watch(call, left))
    try:
        vectors, count = await call.shared.at_length(work)
    except RequestError:
        if left.is_set():
            raise ClientLeft("the client has left") from None
        raise
    finally:
        left.set()
        watcher.cancel()
    return json_response(
        {
            "object": "list",
            "data": [_entry(i, row, body["encoding_format"]) for i, row in enumerate(vectors)],
            "model": model_id(call),
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


async def _watch(call: Call, left: threading.Event) -> None:
    """The body has been read: what comes next is that the client has gone."""
    while (await call.request.receive())["type"] != "http.disconnect":
        pass
    left.set()


def _entry(index: int, row: F32, form: str) -> dict[str, Any]:
    """Base64 is of float32, the lowest byte first."""
    if form == "base64":
        found: Any = base64.b64encode(row.astype(np.dtype("<f4")).tobytes()).decode()
    else:
        found = [float(value) for value in row]
    return {"object": "embedding", "index": index, "embedding": found}
