"""/glass: what was inside while a response was made, for as long as the cache holds it.

A response is named by its id; its second choice by the id with .1 behind it, and so on.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from starlette.responses import Response

from llm_lite.core.serving.service import F32, AnswerTokens, LensLayer
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.tables.kinds import FieldProblem, Text, Whole
from llm_lite.server.tables.records import Field

NPZ = "application/x-npz"
MOST_VALUES = 16 << 20  # of one answer, as arrays; as JSON, a fraction
_MOST_IN_JSON = 2 << 20
_DIGITS = 6  # of a probability in JSON
_POSITIONS = Whole(0, 1 << 30)
RESPONSE = Field("response", Text(least=1, most=128), "The id of a response.", True)
FORM = Field("format", Text(choices=("json", "npz")), "Or by the header Accept; JSON, else.")
ATTENTION = (
    RESPONSE,
    Field("layer", Whole(0, 4096), "The first is 0.", True),
    Field(
        "heads",
        Text(most=2000, pattern=r"\d{1,4}(,\d{1,4}){0,255}", example="0,3"),
        "As 0,3; without it, all.",
    ),
    Field("first", _POSITIONS, "The first position that looks; without it, the first kept."),
    Field("last", _POSITIONS, "The one behind the last that looks; without it, the end."),
    FORM,
)
LENS = (
    RESPONSE,
    Field("position", _POSITIONS, "Behind which it is read; without it, the last."),
    Field("count", Whole(1, 50), "How many tokens of each layer.", default=5),
    FORM,
)
CACHE = (RESPONSE, FORM)


async def attention(call: Call) -> Response:
    """Probabilities [heads, positions that look, positions that are looked at]."""
    service, query = call.service, call.query
    held = await call.apart(lambda _: service.answer_tokens(query["response"]))
    heads = _heads(query["heads"], held)
    if query["layer"] >= held.layers:
        raise FieldProblem("layer", f"expected 0 to {held.layers - 1}, found {query['layer']}")
    first, last = _span(query, held)
    as_arrays = _wants_arrays(call)
    size, most = len(heads) * (last - first) * len(held.tokens), MOST_VALUES
    if size > (most if as_arrays else _MOST_IN_JSON):
        raise FieldProblem(
            "first", f"{size:,} values are too many at once: ask for fewer heads or positions"
        )
    made = await call.apart(
        lambda _: service.attention(held.response, query["layer"], heads, first, last)
    )
    known = {"response": held.response, "layer": query["layer"], "heads": heads, "first": first}
    if as_arrays:
        return await call.apart(lambda _: _arrays({**known, "attention": made}))
    return await call.apart(lambda _: json_response({**known, "attention": _rounded(made)}))


async def lens(call: Call) -> Response:
    """What each layer would say next behind a position."""
    service, query = call.service, call.query
    held = await call.apart(lambda _: service.answer_tokens(query["response"]))
    position = len(held.tokens) - 1 if query["position"] is None else query["position"]
    if position >= len(held.tokens):
        raise FieldProblem("position", f"expected 0 to {len(held.tokens) - 1}, found {position}")
    count = query["count"]
    layers = await call.apart(lambda _: service.lens(held.response, position, count))
    if _wants_arrays(call):
        return _arrays({"position": position, **_lens_arrays(layers)})
    told = [
        {
            "layer": layer.layer,
            "tokens": list(layer.tokens),
            "texts": list(layer.texts),
            "probabilities": [round(float(p), _DIGITS) for p in layer.probabilities],
        }
        for layer in layers
    ]
    return json_response({"response": held.response, "position": position, "layers": told})


async def cache(call: Call) -> Response:
    """The tokens of a response that the cache holds, and how full it is."""
    service = call.service
    held = await call.apart(lambda _: service.answer_tokens(call.query["response"]))
    status = service.status()
    sizes = {
        "prompt_tokens": held.prompt_tokens,
        "first_query": held.first_query,
        "layers": held.layers,
        "heads": held.heads,
        "page_tokens": status.page_tokens,
        "pages": status.pages,
        "pages_used": status.pages_used,
        "pages_kept": status.pages_kept,
    }
    if _wants_arrays(call):
        texts = np.array(held.texts) if held.texts else np.array([], "U1")
        return _arrays({"tokens": np.array(held.tokens, np.int32), "texts": texts, **sizes})
    told = {"tokens": list(held.tokens), "texts": list(held.texts), **sizes}
    return json_response({"response": held.response, **told})


def _heads(given: str | None, held: AnswerTokens) -> list[int]:
    if given is None:
        return list(range(held.heads))
    heads = [int(number) for number in given.split(",")]
    if max(heads) >= held.heads:
        raise FieldProblem("heads", f"expected 0 to {held.heads - 1}, found {max(heads)}")
    return heads


def _span(query: dict[str, Any], held: AnswerTokens) -> tuple[int, int]:
    """Positions whose queries are kept."""
    end = len(held.tokens)
    first = held.first_query if query["first"] is None else query["first"]
    last = end if query["last"] is None else query["last"]
    if not held.first_query <= first < end:
        expected = f"expected {held.first_query} to {end - 1}, whose queries are kept"
        raise FieldProblem("first", f"{expected}, found {first}")
    if not first < last <= end:
        raise FieldProblem("last", f"expected {first + 1} to {end}, found {last}")
    return first, last


def _wants_arrays(call: Call) -> bool:
    asked = call.query["format"]
    return asked == "npz" or (asked is None and NPZ in call.request.headers.get("accept", ""))


def _arrays(values: dict[str, Any]) -> Response:
    file = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in values.items()}
    np.savez(file, **arrays)
    return Response(file.getvalue(), media_type=NPZ)


def _rounded(values: F32) -> Any:
    """Lists of numbers as short as they can be: float32 has no more digits than these."""
    return np.round(values.astype(np.float64), _DIGITS).tolist()


def _lens_arrays(layers: list[LensLayer]) -> dict[str, Any]:
    return {
        "layers": np.array([layer.layer for layer in layers], np.int32),
        "tokens": np.array([layer.tokens for layer in layers], np.int32),
        "texts": np.array([layer.texts for layer in layers]),
        "probabilities": np.array([layer.probabilities for layer in layers], np.float32),
    }
