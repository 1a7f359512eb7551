"""/v1/embeddings makes vectors of texts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.core.serving.service import F32
from llm_lite.server.call import Call
from llm_lite.server.openai.request import Prompts, UserBody
from llm_lite.server.openai.running import model_id
from llm_lite.server.schema import Count, about
from llm_lite.server.sending import LargeResponse


class EmbeddingRequest(UserBody, kw_only=True):
    input: Annotated[Prompts, about("A text, its tokens, or several of either.")]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[
        Annotated[int, Meta(ge=1, le=1 << 20)] | None, about("Expected as many as the model has.")
    ] = None


class Embedding(Struct, kw_only=True):
    object: Literal["embedding"]
    index: Count
    embedding: str | list[float]


class EmbeddingUsage(Struct):
    prompt_tokens: Count
    total_tokens: Count


class EmbeddingList(Struct, kw_only=True):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    id: Annotated[
        str,
        about(
            "Of an encoder: what /inspect calls the first text; the others have .1 and so on "
            "behind it. Empty for other models."
        ),
    ] = ""


async def embeddings(call: Call) -> Response:
    body: EmbeddingRequest = call.body
    service = call.service
    width = service.model.width
    if body.dimensions not in (None, width):
        raise CheckError("dimensions", f"this model's vectors have {width}")
    texts, name = body.input.items, model_id(call)

    def work(is_left: Callable[[], bool]) -> Response:
        tokens = [service.tokenize(t) if isinstance(t, str) else t for t in texts]
        made = service.embed(tokens, is_left)
        found = EmbeddingList(
            object="list",
            data=[_entry(i, row, body.encoding_format) for i, row in enumerate(made.vectors)],
            model=name,
            usage=EmbeddingUsage(made.tokens, made.tokens),
            id=made.response,
        )
        return LargeResponse(asdict(found))

    return await call.in_thread(work, at_length=True)


def _entry(index: int, row: F32, form: str) -> Embedding:
    """Return a vector as numbers, or as base64 of float32, the lowest byte first."""
    if form == "base64":
        text = base64.b64encode(row.astype(np.dtype("<f4")).tobytes()).decode()
        return Embedding(object="embedding", index=index, embedding=text)
    return Embedding(object="embedding", index=index, embedding=row.tolist())
