"""All addresses of the server, a row each."""

from __future__ import annotations

from starlette.responses import Response

from llm_lite.core.assets import program_version
from llm_lite.server import glass, metrics
from llm_lite.server.call import Call
from llm_lite.server.failures import json_response
from llm_lite.server.openai.chat import chat
from llm_lite.server.openai.chat_request import CHAT
from llm_lite.server.openai.completions import COMPLETION, completion
from llm_lite.server.openai.embeddings import EMBEDDING, embeddings
from llm_lite.server.openai.models import model, models
from llm_lite.server.openai.responses import respond
from llm_lite.server.openai.responses_request import RESPONSE_REQUEST
from llm_lite.server.openai.tokens import DETOKENIZE, TOKENIZE, detokenize, tokenize
from llm_lite.server.tables import shapes
from llm_lite.server.tables.document import document
from llm_lite.server.tables.endpoint import EVENTS, JSON, Endpoint, Given
from llm_lite.server.tables.kinds import Text
from llm_lite.server.tables.records import Field, Record


def _json(about: str, shape: Record) -> Given:
    return Given(about, ((JSON, shape),))


def _streamed(about: str, shape: Record) -> Given:
    return Given(f"{about}; with stream, its events.", ((JSON, shape), (EVENTS, None)))


def _arrays(about: str, shape: Record) -> Given:
    return Given(about, ((JSON, shape), (glass.NPZ, None)))


async def describe(call: Call) -> Response:
    """This table, as a document."""
    return json_response(document(ENDPOINTS, program_version()))


_A_MODEL, _A_RESPONSE = "the model", "the response, or the cache holds it no more"
_NAME = Field("model", Text(least=1, most=512), "As /v1/models names it.", True)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/models",
        "Which model answers.",
        models,
        _json("The model in use, or the one that is being loaded.", shapes.MODELS),
        needs_model=False,
    ),
    Endpoint(
        "GET",
        "/v1/models/{model:path}",
        "What is known of a model.",
        model,
        _json("The model.", shapes.MODEL),
        needs_model=False,
        in_path=(_NAME,),
        finds=_A_MODEL,
    ),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        "Go on with a conversation.",
        chat,
        _streamed("The answer", shapes.CHAT),
        body=CHAT,
    ),
    Endpoint(
        "POST",
        "/v1/completions",
        "Go on with a text.",
        completion,
        _streamed("The text that follows", shapes.COMPLETION),
        body=COMPLETION,
    ),
    Endpoint(
        "POST",
        "/v1/responses",
        "Answer with items: thoughts, a message, calls of functions.",
        respond,
        _streamed("The response", shapes.RESPONSE),
        body=RESPONSE_REQUEST,
    ),
    Endpoint(
        "POST",
        "/v1/embeddings",
        "Make vectors of texts.",
        embeddings,
        _json("A vector of length 1 for each text.", shapes.EMBEDDINGS),
        body=EMBEDDING,
    ),
    Endpoint(
        "POST",
        "/tokenize",
        "Cut a text, or a conversation in the model's template, into tokens.",
        tokenize,
        _json("The tokens.", shapes.TOKENS),
        body=TOKENIZE,
    ),
    Endpoint(
        "POST",
        "/detokenize",
        "Tokens to their text.",
        detokenize,
        _json("The text.", shapes.TEXT),
        body=DETOKENIZE,
    ),
    Endpoint(
        "GET",
        "/glass/attention",
        "Where the tokens of a response looked.",
        glass.attention,
        _arrays(
            "Probabilities by head, position that looks, position looked at.", shapes.ATTENTION
        ),
        query=glass.ATTENTION,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/glass/lens",
        "What each layer would have said next.",
        glass.lens,
        _arrays("The likeliest tokens of each layer.", shapes.LENS),
        query=glass.LENS,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/glass/cache",
        "What the cache holds of a response.",
        glass.cache,
        _arrays("Its tokens, and how full the cache is.", shapes.CACHE),
        query=glass.CACHE,
        finds=_A_RESPONSE,
    ),
    Endpoint(
        "GET",
        "/health",
        "Whether a model answers.",
        metrics.health,
        _json("It does.", shapes.HEALTH),
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
        _json("The document.", shapes.DOCUMENT),
        needs_model=False,
    ),
)
