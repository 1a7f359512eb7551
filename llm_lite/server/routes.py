"""`ENDPOINTS` has a row for each address of the server; `make_app` makes the application of
them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.core.assets import program_version
from llm_lite.core.plain_text import one_line
from llm_lite.core.questions.table import QUESTIONS
from llm_lite.server import inspect, metrics
from llm_lite.server.call import JSON, Call, Endpoint, Given, answer_request
from llm_lite.server.document import Document, document
from llm_lite.server.encode import Encoded, EncodeRequest, encode
from llm_lite.server.event_stream import EVENTS
from llm_lite.server.failures import ApiError, json_response
from llm_lite.server.openai.chat import ChatCompletion, chat
from llm_lite.server.openai.chat_request import ChatCompletionRequest
from llm_lite.server.openai.completions import Completion, CompletionRequest, completion
from llm_lite.server.openai.embeddings import EmbeddingList, EmbeddingRequest, embeddings
from llm_lite.server.openai.models import ModelList, ModelPath, ServedModel, model, models
from llm_lite.server.openai.responses import Response as ResponseAnswer
from llm_lite.server.openai.responses import respond
from llm_lite.server.openai.responses_request import ResponseRequest
from llm_lite.server.openai.tokens import (
    DetokenizeRequest,
    TokenizeRequest,
    Tokens,
    TokensText,
    detokenize,
    tokenize,
)
from llm_lite.server.page import Page
from llm_lite.server.questions import endpoints_of
from llm_lite.server.security import Guard
from llm_lite.server.shared import Shared


def _json(about: str, kind: Any) -> Given:
    return Given(about, ((JSON, kind),))


def _streamed(about: str, kind: Any) -> Given:
    return Given(f"{about}; with stream, its events.", ((JSON, kind), (EVENTS, None)))


def _arrays(about: str, kind: Any) -> Given:
    return Given(about, ((JSON, kind), (inspect.NPZ, None)))


async def describe(call: Call) -> Response:
    """Answer with this table as a document."""
    return json_response(document(ENDPOINTS, program_version()))


_A_MODEL, _A_RESPONSE = "the model", "the response, or the cache holds it no more"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/models",
        "Which model answers.",
        models,
        _json("The model in use, or the one that is being loaded.", ModelList),
        needs_model=False,
    ),
    Endpoint(
        "GET",
        "/v1/models/{model:path}",
        "What is known of a model.",
        model,
        _json("The model.", ServedModel),
        needs_model=False,
        in_path=ModelPath,
        finds=_A_MODEL,
    ),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        "Go on with a conversation.",
        chat,
        _streamed("The answer", ChatCompletion),
        body=ChatCompletionRequest,
    ),
    Endpoint(
        "POST",
        "/v1/completions",
        "Go on with a text.",
        completion,
        _streamed("The text that follows", Completion),
        body=CompletionRequest,
    ),
    Endpoint(
        "POST",
        "/v1/responses",
        "Answer with items: thoughts, a message, calls of functions.",
        respond,
        _streamed("The response", ResponseAnswer),
        body=ResponseRequest,
    ),
    Endpoint(
        "POST",
        "/v1/embeddings",
        "Make vectors of texts.",
        embeddings,
        _json("A vector of length 1 for each text.", EmbeddingList),
        body=EmbeddingRequest,
    ),
    Endpoint(
        "POST",
        "/encode",
        "Read a text with an encoder.",
        encode,
        _json("Its tokens, and candidates for masked ones.", Encoded),
        body=EncodeRequest,
    ),
    Endpoint(
        "POST",
        "/tokenize",
        "Cut a text, or a conversation in the model's template, into tokens.",
        tokenize,
        _json("The tokens.", Tokens),
        body=TokenizeRequest,
    ),
    Endpoint(
        "POST",
        "/detokenize",
        "Tokens to their text.",
        detokenize,
        _json("The text.", TokensText),
        body=DetokenizeRequest,
    ),
    Endpoint(
        "GET",
        "/inspect/attention",
        "Attention rows of the tokens of a response.",
        inspect.attention,
        _arrays(
            "Probabilities by head, position of the query, position of the key.", inspect.Attention
        ),
        query=inspect.AttentionQuery,
        finds=_A_RESPONSE,
        alias="/glass/attention",
    ),
    Endpoint(
        "GET",
        "/inspect/rows",
        "What one token of a response attends to, or what attends to it.",
        inspect.rows,
        _arrays("Weights by position.", inspect.Rows),
        query=inspect.RowsQuery,
        finds=_A_RESPONSE,
        alias="/glass/rows",
    ),
    Endpoint(
        "GET",
        "/inspect/lens",
        "What each layer would have said next.",
        inspect.lens,
        _arrays("The likeliest tokens of each layer.", inspect.LensLayers),
        query=inspect.LensQuery,
        finds=_A_RESPONSE,
        alias="/glass/lens",
    ),
    Endpoint(
        "GET",
        "/inspect/states",
        "What a head of a recurrent state holds of the last tokens of a response.",
        inspect.states,
        _arrays("What each token writes, and reads of what others wrote.", inspect.States),
        query=inspect.StatesQuery,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/inspect/experts",
        "Which experts of a mixture the tokens of a response chose.",
        inspect.experts,
        _arrays("The experts of each token in each layer, and their shares.", inspect.Experts),
        query=inspect.ExpertsQuery,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/inspect/trace",
        "What one token of a response becomes on its way through the model.",
        inspect.trace,
        _json("Its numbers in every layer, and in one layer that is opened.", inspect.Trace),
        query=inspect.TraceQuery,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/inspect/statistics",
        "A number for each position of a response in each layer's cache.",
        inspect.statistics,
        _arrays("Numbers by layer and position.", inspect.Statistics),
        query=inspect.StatisticsQuery,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/inspect/scores",
        "What characterises each head by its map of a response.",
        inspect.scores,
        _arrays("Scores by layer and head.", inspect.Scores),
        query=inspect.CacheQuery,
        finds=_A_RESPONSE,
    ),
    *(
        row
        for one in QUESTIONS
        if one not in inspect.OWN_FORM
        for row in endpoints_of(one, _A_RESPONSE)
    ),
    Endpoint(
        "GET",
        "/inspect/cache",
        "What the cache holds of a response.",
        inspect.cache,
        _arrays("Its tokens, and how full the cache is.", inspect.CacheHeld),
        query=inspect.CacheQuery,
        finds=_A_RESPONSE,
        alias="/glass/cache",
    ),
    Endpoint(
        "GET",
        "/health",
        "Whether a model answers.",
        metrics.health,
        _json("It does.", metrics.Health),
        is_open=True,
    ),
    Endpoint(
        "GET",
        "/metrics",
        "Counts for Prometheus.",
        metrics.metrics,
        Given("Text of Prometheus.", (("text/plain", None),)),
        needs_model=False,
    ),
    Endpoint(
        "GET",
        "/openapi.json",
        "This document.",
        describe,
        _json("The document.", Document),
        needs_model=False,
    ),
)
_LONGEST_PATH = 120  # characters that an error repeats
_OF_V1 = frozenset(row.path for row in ENDPOINTS if row.path.startswith("/v1/"))


def make_app(shared: Shared, page: Page | None = None) -> Starlette:
    """Return an application of ASGI, with a page for browsers where one is given."""
    routes = [
        Route(path, _handler(row, shared), methods=[row.method], include_in_schema=False)
        for row in ENDPOINTS
        for path in (row.path, row.alias)
        if path
    ]
    open_paths = [row.path for row in ENDPOINTS if row.is_open]
    if page is not None:
        routes += page.routes()
        open_paths += page.open_paths
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, shared, open_paths)],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return app


def _handler(row: Endpoint, shared: Shared) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await answer_request(row, shared, request)

    return handle


async def _refused(request: Request, error: Exception) -> Response:
    """Answer for addresses and methods that there are not."""
    assert isinstance(error, HTTPException)
    path, message = request.url.path, error.detail
    shown = one_line(path[:_LONGEST_PATH])
    if error.status_code == 404:
        message = f"this server has no address {shown}"
        # Of a base URL without its end, or with more than that.
        if meant := [one for one in _OF_V1 if path.endswith(one.removeprefix("/v1"))]:
            message += f": did you mean {max(meant, key=len)}?"
    allowed = (error.headers or {}).get("Allow", "")
    if error.status_code == 405:
        message = f"{shown} does not take {one_line(request.method[:16])}, but {allowed}"
    response = ApiError(error.status_code, message).response()
    if allowed:
        response.headers["allow"] = allowed
    return response
