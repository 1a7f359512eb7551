"""/v1/embeddings: texts to vectors."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
from starlette.responses import Response

from llm_lite.core.serving.service import F32
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
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

    def work(is_left: Callable[[], bool]) -> tuple[F32, int]:
        tokens = [service.tokenize(t) if isinstance(t, str) else t for t in texts]
        made = service.embed(tokens, is_left)
        return made.vectors, made.tokens

    vectors, count = await call.apart(work, at_length=True)
    return json_response(
        {
            "object": "list",
            "data": [_entry(i, row, body["encoding_format"]) for i, row in enumerate(vectors)],
            "model": model_id(call),
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


def _entry(index: int, row: F32, form: str) -> dict[str, Any]:
    """Base64 is of float32, the lowest byte first."""
    if form == "base64":
        found: Any = base64.b64encode(row.astype(np.dtype("<f4")).tobytes()).decode()
    else:
        found = [float(value) for value in row]
    return {"object": "embedding", "index": index, "embedding": found}
