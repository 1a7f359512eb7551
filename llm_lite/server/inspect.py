"""/inspect shows the inside of a response, for as long as the cache holds it.

A response is named by its id; its second choice by the id with .1 behind it, and so on.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import isfinite, isqrt
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import (
    AttentionRows,
    CacheMeasured,
    Direction,
    FollowToken,
    Inspect,
    LensResult,
    LensRow,
    Measure,
    MeasureCache,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    StatesRead,
    TokenFollowed,
    TokenTrace,
)
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD, MOST_BESIDE
from llm_lite.core.questions.attention import ATTENTION, AttentionRead, ReadAttention
from llm_lite.core.questions.lens import LENS
from llm_lite.core.questions.routing import ROUTING
from llm_lite.core.questions.rows import ROWS
from llm_lite.core.questions.scores import SCORES, ReadScores, ScoresRead
from llm_lite.core.questions.states import STATES
from llm_lite.core.questions.statistics import STATISTICS
from llm_lite.core.questions.trace import TRACE
from llm_lite.core.serving.service import F32, AnswerTokens
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.schema import Count, Query, about
from llm_lite.server.sending import LargeResponse

NPZ = "application/x-npz"
MOST_VALUES = 16 << 20  # of one answer, as arrays; as JSON, a fraction
MOST_IN_JSON = 2 << 20
_MOST_STATES = isqrt(MOST_VALUES)  # tokens whose reads of each other are told at once
_DIGITS = 6  # of a probability in JSON
_BY_TOKEN = ("kept", "written", "norms", "shares", "of_start")
# Whose address is older than the table of questions, or has another form than its records.
OWN_FORM = (LENS, ATTENTION, ROWS, STATISTICS, ROUTING, STATES, SCORES, TRACE)
Position = Annotated[int, Meta(ge=0, le=1 << 30)]


ResponseId = Annotated[str, Meta(min_length=1, max_length=128, description="The id of a response.")]


class CacheQuery(Query, kw_only=True):
    response: ResponseId
    format: Annotated[
        Literal["json", "npz"] | None, about("Or by the header Accept; JSON, else.")
    ] = None


class AttentionQuery(CacheQuery, kw_only=True):
    layer: Annotated[int, Meta(ge=0, le=4096, description="The first is 0.")]
    heads: Annotated[
        Annotated[
            str,
            Meta(
                max_length=2000,
                pattern=r"^\d{1,4}(,\d{1,4}){0,255}(?!\n)$",
                extra={"expected": "a text like 0,3"},
            ),
        ]
        | None,
        about("As 0,3; without it, all."),
    ] = None
    first: Annotated[
        Position | None, about("The first position of a query; without it, the first kept.")
    ] = None
    last: Annotated[
        Position | None, about("The position behind the last query; without it, the end.")
    ] = None


class RowsQuery(CacheQuery, kw_only=True):
    position: Annotated[Position, about("Of the token.")]
    direction: Annotated[
        Direction, about("`from`: what the token attends to; `to`: what attends to it.")
    ] = "from"
    heads: Annotated[
        Annotated[
            str,
            Meta(
                max_length=4000,
                pattern=r"^\d{1,4}\.\d{1,4}(,\d{1,4}\.\d{1,4}){0,255}(?!\n)$",
                extra={"expected": "a text like 3.0,5.2"},
            ),
        ]
        | None,
        about("As 3.0,5.2, layer and head: the mean over these."),
    ] = None
    layer: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        about("The mean over its heads. Without it and `heads`, the rollout through all layers."),
    ] = None
    without_first: Annotated[
        bool, about("Of a rollout: leave out the first token, which takes nearly everything else.")
    ] = False


class LensQuery(CacheQuery, kw_only=True):
    position: Annotated[
        Position | None, about("Behind which it is read; without it, the last.")
    ] = None
    count: Annotated[int, Meta(ge=1, le=50, description="How many tokens of each layer.")] = 5


class TraceQuery(Query, kw_only=True):
    response: ResponseId
    position: Annotated[Position | None, about("Of the token; without it, the last.")] = None
    layer: Annotated[int, Meta(ge=0, le=4096, description="The layer that is opened.")] = 0
    head: Annotated[
        Annotated[int, Meta(ge=0, le=4096)] | None,
        about(
            "The head of it that is opened; without it, the one that attends most to other tokens "
            "than the first, the last and its own."
        ),
    ] = None
    first: Annotated[
        Position, about("The first position whose scores are told; at most the last 24 are.")
    ] = 0
    beside: Annotated[
        Annotated[str, Meta(max_length=MOST_BESIDE)],
        about("Of an encoder: a text whose vector is compared."),
    ] = ""


class StatesQuery(CacheQuery, kw_only=True):
    layer: Annotated[
        int, Meta(ge=0, le=4096, description="One that has a recurrent state; the first is 0.")
    ]
    head: Annotated[int, Meta(ge=0, le=4096)]
    positions: Annotated[
        int, Meta(ge=1, le=_MOST_STATES, description="How many of the last tokens.")
    ] = 256


class ExpertsQuery(CacheQuery, kw_only=True):
    first: Annotated[Position, about("The first position whose choices are told.")] = 0


class StatisticsQuery(CacheQuery, kw_only=True):
    what: Annotated[
        Measure,
        about(
            "Norms of keys or values, all heads together, or the attention received: the mean over "
            "heads and the queries from a position on."
        ),
    ]


class Attention(Struct, kw_only=True):
    response: str
    layer: Count
    heads: list[Count]
    first: Annotated[Count, about("Position of the first row.")]
    attention: Annotated[
        list[list[list[float | None]]],
        about(
            "[heads, rows, positions]; null in rows of a layer with a window whose keys are gone."
        ),
    ]


class Rows(Struct, kw_only=True):
    response: str
    position: Count
    direction: Direction
    weights: Annotated[list[float], about("By position, from 0 on.")]
    note: Annotated[str, about("What is missing in them; empty where nothing is.")]


class LensLayer(Struct, kw_only=True):
    layer: Count
    tokens: list[Count]
    texts: list[str]
    probabilities: list[float]


class LensLayers(Struct):
    response: str
    position: Count
    layers: list[LensLayer]


class Trace(Struct, kw_only=True):
    response: str
    trace: Annotated[
        TokenTrace,
        about("Vectors are cut after 128 values; `rms` is that of the whole vector."),
    ]


class HalfLives(Struct):
    layer: Count
    tokens: Annotated[
        list[float | None],
        about("By head: after how many tokens half of its state is left; null: it keeps all."),
    ]


class States(Struct, kw_only=True):
    response: str
    layer: Count
    head: Count
    first: Annotated[Count, about("Position of the first token; what follows is by token.")]
    kept: Annotated[list[float], about("The part of the state that a token leaves.")]
    written: Annotated[
        list[float], about("How far a token moves what its key finds towards its value.")
    ]
    norms: Annotated[list[float], about("Of the state behind a token (Frobenius).")]
    shares: Annotated[
        list[list[float]],
        about(
            "[tokens, tokens]: the part of what a token (row) reads that another (column) wrote; "
            "below 0 where it works against the whole."
        ),
    ]
    of_start: Annotated[
        list[float],
        about("The part of what a token reads that was there before the first."),
    ]
    half_lives: Annotated[list[HalfLives], about("Of all layers that have a state.")]


class Experts(Struct, kw_only=True):
    response: str
    first: Annotated[Count, about("Position of the first token.")]
    layers: Annotated[list[Count], about("Those that have experts.")]
    experts: Annotated[Count, about("How many a layer has.")]
    chosen: Annotated[
        list[list[list[Count]]],
        about("[tokens, layers, chosen]: the experts of each token, the highest score first."),
    ]
    shares: Annotated[
        list[list[list[float]]], about("[tokens, layers, chosen]: what each of them weighs.")
    ]


class Statistics(Struct, kw_only=True):
    response: str
    what: Measure
    layers: Annotated[list[Count], about("Those with keys and values of their own.")]
    values: Annotated[
        list[list[float | None]], about("[layers, positions]; null where nothing is known.")
    ]


class Scores(Struct, kw_only=True):
    response: str
    scores: Annotated[
        dict[str, list[list[float | None]]],
        about(
            "[layers, heads] by name: entropy in nats, and the mean share of the token before, of "
            "the same token before, of what stood behind it, and of the first token; null where "
            "no row counts."
        ),
    ]


class CacheHeld(Struct, kw_only=True):
    response: str
    tokens: list[Count]
    texts: list[str]
    prompt_tokens: Annotated[Count, about("How many of them are the prompt.")]
    first_query: Annotated[Count, about("Queries are kept from this position on.")]
    layers: Count
    recurrent_layers: Annotated[
        list[Count], about("Those of them that have a recurrent state instead of attention.")
    ]
    heads: Count
    page_tokens: Annotated[Count, about("Positions of a page of the cache.")]
    pages: Count
    pages_used: Count
    pages_kept: Count
    source: Annotated[list[Count], about("Of an encoder-decoder, the tokens of the source.")]


async def attention(call: Call) -> Response:
    """Return probabilities [heads, positions of queries, positions of keys]."""
    service = call.service
    query: AttentionQuery = call.query
    held = await call.in_thread(lambda _: service.answer_tokens(query.response))
    heads = _heads(query.heads, held)
    if query.layer >= held.layers:
        raise CheckError("layer", f"expected 0 to {held.layers - 1}, found {query.layer}")
    first, last = _span(query, held)
    as_arrays = wants_arrays(call)
    size, most = len(heads) * (last - first) * len(held.tokens), MOST_VALUES
    if size > (most if as_arrays else MOST_IN_JSON):
        raise CheckError(
            "first", f"{size:,} values are too many at once: ask for fewer heads or positions"
        )
    asked = ReadAttention(query.layer, tuple(heads), first, last)
    found: AttentionRead = await call.in_thread(lambda _: service.ask(held.response, asked))
    made = found.attention

    def written() -> Response:
        known = {"response": held.response, "layer": query.layer, "heads": heads, "first": first}
        if as_arrays:
            return npz_response({**known, "attention": made})
        return LargeResponse({**known, "attention": [_known(rows) for rows in made]})

    return await call.in_thread(lambda _: written())


async def rows(call: Call) -> Response:
    """Return what a token attends to, or what attends to it."""
    service = call.service
    query: RowsQuery = call.query
    held = await call.in_thread(lambda _: service.answer_tokens(query.response))
    asked = _asked_rows(query, held)
    made: AttentionRows = await call.in_thread(lambda _: service.ask(held.response, asked))
    weights = np.array(made.weights, np.float32)
    found = Rows(
        response=held.response,
        position=made.position,
        direction=made.direction,
        weights=_rounded(weights),
        note=made.note,
    )
    if wants_arrays(call):
        return npz_response({**asdict(found), "weights": weights})
    return json_response(found)


async def lens(call: Call) -> Response:
    """Return what each layer would say next behind a position."""
    service = call.service
    query: LensQuery = call.query
    held = await call.in_thread(lambda _: service.answer_tokens(query.response))
    position = _position(query.position, held)
    asked = Inspect(position, query.count)
    made: LensResult = await call.in_thread(
        lambda left: service.ask(held.response, asked, left), at_length=True
    )
    if wants_arrays(call):
        return npz_response({"position": position, **_lens_arrays(made.rows)})
    rows = [
        LensLayer(
            layer=row.layer,
            tokens=[one.token for one in row.tokens],
            texts=[one.text for one in row.tokens],
            probabilities=[round(float(one.probability), _DIGITS) for one in row.tokens],
        )
        for row in made.rows
    ]
    return json_response(LensLayers(held.response, position, rows))


async def states(call: Call) -> Response:
    """Return what a head of a recurrent state holds of the last tokens."""
    query: StatesQuery = call.query
    as_arrays = wants_arrays(call)
    if not as_arrays and query.positions**2 > MOST_IN_JSON:
        most = isqrt(MOST_IN_JSON)
        raise CheckError("positions", f"expected at most {most} in JSON, found {query.positions}")
    asked = ReadStates(query.layer, query.head, query.positions)
    made: StatesRead = await call.in_thread(
        lambda left: call.service.ask(query.response, asked, left), at_length=True
    )
    write = _state_arrays if as_arrays else _states_in_json
    return await call.in_thread(lambda _: write(query.response, made))


async def experts(call: Call) -> Response:
    """Return which experts each token chose."""
    query: ExpertsQuery = call.query
    as_arrays = wants_arrays(call)
    made: RoutingRead = await call.in_thread(
        lambda _: call.service.ask(query.response, ReadRouting(query.first))
    )
    routing = Routing.of(made)
    chosen, shares = routing.chosen, routing.shares
    if not as_arrays and chosen.size > MOST_IN_JSON:
        each = chosen.shape[1] * chosen.shape[2]
        most = MOST_IN_JSON // each
        raise CheckError("first", f"expected the last {most} tokens at most in JSON, or npz")
    reply = Experts(
        response=query.response,
        first=made.first,
        layers=list(made.layers),
        experts=made.experts,
        chosen=[],
        shares=[],
    )

    def written() -> Response:
        if as_arrays:
            return npz_response({**asdict(reply), "chosen": chosen, "shares": shares})
        reply.chosen, reply.shares = chosen.tolist(), _rounded(shares)
        return json_response(reply)

    return await call.in_thread(lambda _: written())


async def trace(call: Call) -> Response:
    """Return what a token becomes on its way through the model."""
    service = call.service
    query: TraceQuery = call.query
    held = await call.in_thread(lambda _: service.answer_tokens(query.response))
    position = _position(query.position, held)
    head = ANY_HEAD if query.head is None else query.head
    asked = FollowToken(position, query.layer, head, query.first, query.beside)
    made: TokenFollowed = await call.in_thread(lambda _: service.ask(held.response, asked))
    found = Trace(response=held.response, trace=made.trace)
    return await call.in_thread(lambda _: json_response(found))


async def statistics(call: Call) -> Response:
    """Return a number for each position of each layer's cache."""
    query: StatisticsQuery = call.query
    made: CacheMeasured = await call.in_thread(
        lambda left: call.service.ask(query.response, MeasureCache(query.what), left),
        at_length=True,
    )
    values = np.array(made.values, np.float32)
    if wants_arrays(call):
        return npz_response({"layers": np.array(made.layers, np.int32), "values": values})
    return await call.in_thread(
        lambda _: json_response(
            Statistics(
                response=query.response,
                what=query.what,
                layers=list(made.layers),
                values=_known(values),
            )
        )
    )


async def scores(call: Call) -> Response:
    """Return what characterises each head by its map."""
    query: CacheQuery = call.query
    made: ScoresRead = await call.in_thread(
        lambda left: call.service.ask(query.response, ReadScores(), left), at_length=True
    )
    if wants_arrays(call):
        return npz_response(dict(made.scores))
    return json_response(
        Scores(
            response=query.response,
            scores={name: _known(values) for name, values in made.scores.items()},
        )
    )


async def cache(call: Call) -> Response:
    """Return the tokens of a response that the cache holds, and how full it is."""
    service = call.service
    query: CacheQuery = call.query
    held = await call.in_thread(lambda _: service.answer_tokens(query.response))
    status = service.status()
    found = CacheHeld(
        response=held.response,
        tokens=list(held.tokens),
        texts=list(held.texts),
        prompt_tokens=held.prompt_tokens,
        first_query=held.first_query,
        layers=held.layers,
        recurrent_layers=list(service.model.recurrent_layers),
        heads=held.heads,
        page_tokens=status.page_tokens,
        pages=status.pages,
        pages_used=status.pages_used,
        pages_kept=status.pages_kept,
        source=list(held.source),
    )
    if not wants_arrays(call):
        return json_response(found)
    arrays = {
        "tokens": np.array(held.tokens, np.int32),
        "texts": np.array(held.texts) if held.texts else np.array([], "U1"),
    }
    arrays["recurrent_layers"] = np.array(found.recurrent_layers, np.int32)
    arrays["source"] = np.array(found.source, np.int32)
    sizes = {name: one for name, one in asdict(found).items() if isinstance(one, int)}
    return npz_response({**arrays, **sizes})


def _asked_rows(query: RowsQuery, held: AnswerTokens) -> ReadAttentionRows:
    position, direction = _position(query.position, held), query.direction
    if query.heads is not None and query.layer is not None:
        raise CheckError("layer", "expected it or heads, found both")
    if query.layer is not None:
        return ReadAttentionRows(position, direction, "layer-mean", layer=query.layer)
    if query.heads is not None:
        parts = [head.split(".") for head in query.heads.split(",")]
        heads = tuple((int(layer), int(head)) for layer, head in parts)
        return ReadAttentionRows(position, direction, "heads", heads)
    return ReadAttentionRows(position, direction, "rollout", without_first=query.without_first)


def _position(given: int | None, held: AnswerTokens) -> int:
    """Return the position asked for; without one, the last."""
    last = len(held.tokens) - 1
    position = last if given is None else given
    if position > last:
        raise CheckError("position", f"expected 0 to {last}, found {position}")
    return position


def _heads(given: str | None, held: AnswerTokens) -> list[int]:
    if given is None:
        return list(range(held.heads))
    heads = [int(number) for number in given.split(",")]
    if max(heads) >= held.heads:
        raise CheckError("heads", f"expected 0 to {held.heads - 1}, found {max(heads)}")
    return heads


def _span(query: AttentionQuery, held: AnswerTokens) -> tuple[int, int]:
    """Return the positions asked for, whose queries are kept."""
    end = len(held.tokens)
    first = held.first_query if query.first is None else query.first
    last = end if query.last is None else query.last
    if not held.first_query <= first < end:
        expected = f"expected {held.first_query} to {end - 1}, whose queries are kept"
        raise CheckError("first", f"{expected}, found {first}")
    if not first < last <= end:
        raise CheckError("last", f"expected {first + 1} to {end}, found {last}")
    return first, last


def wants_arrays(call: Call) -> bool:
    """Return whether a request asks for NPZ, by its query or its header."""
    asked = (call.query or call.body).format
    return asked == "npz" or (asked is None and NPZ in call.request.headers.get("accept", ""))


def npz_response(values: dict[str, Any]) -> Response:
    """Return arrays by name as an uncompressed NPZ."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in values.items()}
    np.savez(file, **arrays)
    return Response(file.getvalue(), media_type=NPZ)


def _rounded(values: F32) -> Any:
    """Return lists of numbers as short as they can be: float32 has no more digits than these."""
    return np.round(values.astype(np.float64), _DIGITS).tolist()


def _known(values: F32) -> list[list[float | None]]:
    """Return rows of numbers, None in place of nan, which JSON does not have."""
    return [[None if one != one else one for one in row] for row in _rounded(values)]


def _states_in_json(response: str, made: StatesRead) -> Response:
    lives = [
        HalfLives(layer, [one if isfinite(one) else None for one in tokens])
        for layer, tokens in made.half_lives
    ]
    return json_response(
        States(
            response=response,
            layer=made.layer,
            head=made.head,
            first=made.first,
            kept=_rounded(np.array(made.kept)),
            written=_rounded(np.array(made.written)),
            norms=list(made.norms),
            shares=_rounded(np.array(made.shares)),
            of_start=_rounded(np.array(made.of_start)),
            half_lives=lives,
        )
    )


def _state_arrays(response: str, made: StatesRead) -> Response:
    """Return arrays as `States` has them, half-lives as two: their layers, and [layers, heads]."""
    single = {name: np.array(getattr(made, name), np.float32) for name in _BY_TOKEN}
    layers, lives = zip(*made.half_lives, strict=True)
    return npz_response(
        {
            "response": response,
            "layer": made.layer,
            "head": made.head,
            "first": made.first,
            **single,
            "half_life_layers": np.array(layers, np.int32),
            "half_lives": np.array(lives, np.float32),
        }
    )


def _lens_arrays(rows: Sequence[LensRow]) -> dict[str, Any]:
    best = [row.tokens for row in rows]
    return {
        "layers": np.array([row.layer for row in rows], np.int32),
        "tokens": np.array([[one.token for one in row] for row in best], np.int32),
        "texts": np.array([[one.text for one in row] for row in best]),
        "probabilities": np.array([[one.probability for one in row] for row in best], np.float32),
    }
