"""What is answered, for the document; tests compare real answers with it."""

from __future__ import annotations

from llm_lite.server.tables.kinds import (
    AnyObject,
    Anything,
    Flag,
    Kind,
    ListOf,
    MapOf,
    Nothing,
    Number,
    OneOf,
    Text,
    Whole,
)
from llm_lite.server.tables.records import Field, Record

_COUNT = Whole(0, 1 << 53)
_NUMBER = Number()


def _has(name: str, kind: Kind, about: str = "") -> Field:
    return Field(name, kind, about, required=True)


def _shape(name: str, *fields: Field) -> Record:
    """Of answers: a client does not refuse what it does not know."""
    return Record(name, fields, open=True)


def _or_null(kind: Kind) -> Kind:
    return OneOf((kind, Nothing()))


ERROR = _shape(
    "Error",
    _has(
        "error",
        _shape(
            "ErrorTold",
            _has("message", Text(), "A sentence."),
            _has("type", Text()),
            _has("param", _or_null(Text()), "The field at fault."),
            _has("code", _or_null(Text())),
        ),
    ),
)
HEALTH = _shape("Health", _has("status", Text(choices=("ok",))))
MODEL = _shape(
    "Model",
    _has("id", Text(), "The title as a name."),
    _has("title", Text()),
    _has("object", Text(choices=("model",))),
    _has("created", _COUNT),
    _has("owned_by", Text()),
    _has(
        "status",
        _shape("ModelStatus", _has("value", Text(choices=("loaded", "loading")))),
        "While it is loading, nothing below is known, and other addresses answer 503.",
    ),
    Field("context_length", _COUNT, "Tokens of a prompt and its answer."),
    Field("architecture", Text()),
    Field("parameters", _COUNT),
    Field("vocabulary", _COUNT),
    Field("layers", _COUNT),
    Field("heads", _COUNT),
    Field("width", _COUNT),
    Field("mode", Text(), "How weights are kept."),
    Field("backend", Text()),
    Field("calls_functions", Flag()),
    Field("switches_thinking", Flag()),
    Field("has_chat_template", Flag(), "Without one, a chat is written in a plain format."),
    Field(
        "sampling_defaults",
        ListOf(
            _shape(
                "SamplingDefault",
                _has("name", Text()),
                _has("value", _NUMBER),
                _has("source", Text()),
            )
        ),
        "How tokens are chosen where a request says nothing, and what advises it.",
    ),
)
MODELS = _shape(
    "ModelList", _has("object", Text(choices=("list",))), _has("data", ListOf(MODEL, most=1))
)
_USAGE = _shape(
    "Usage",
    _has("prompt_tokens", _COUNT),
    _has("completion_tokens", _COUNT),
    _has("total_tokens", _COUNT),
    _has(
        "prompt_tokens_details",
        _shape("PromptTokens", _has("cached_tokens", _COUNT, "Found in the cache.")),
    ),
    _has("completion_tokens_details", _shape("NewTokens", _has("reasoning_tokens", _COUNT))),
)
_TIMINGS = _shape(
    "Timings",
    *(_has(name, _COUNT) for name in ("cache_n", "prompt_n", "predicted_n")),
    *(_has(name, _COUNT) for name in ("draft_n", "draft_n_accepted")),
    *(
        _has(name, _NUMBER)
        for name in ("prompt_per_second", "predicted_per_second", "first_token_ms")
    ),
)
_CALL = _shape(
    "ToolCall",
    _has("id", Text()),
    _has("type", Text(choices=("function",))),
    _has("function", _shape("FunctionCall", _has("name", Text()), _has("arguments", Text()))),
)
_LIKELY = _shape(
    "TokenLikelihood",
    _has("token", Text()),
    _has("logprob", _NUMBER),
    _has("bytes", _or_null(ListOf(Whole(0, 255)))),
    _has("top_logprobs", ListOf(AnyObject())),
)
_STOP_REASON = Field(
    "stop_reason",
    _or_null(Text(choices=("stop string", "role", "repetition"))),
    "Why it stopped, where it is not by itself: at a string of `stop`, as it began to speak as "
    "somebody else, or as it repeated itself without an end.",
)
_CHOICE = _shape(
    "ChatChoice",
    _has("index", _COUNT),
    _has(
        "message",
        _shape(
            "ChatAnswer",
            _has("role", Text(choices=("assistant",))),
            _has("content", _or_null(Text())),
            Field("reasoning_content", Text(), "What was thought before."),
            Field("tool_calls", ListOf(_CALL)),
        ),
    ),
    _has("logprobs", _or_null(_shape("Likelihoods", _has("content", ListOf(_LIKELY))))),
    _has("finish_reason", Text(choices=("stop", "length", "tool_calls"))),
    _STOP_REASON,
)


def _answer(name: str, kind: str, choice: Record) -> Record:
    return _shape(
        name,
        _has("id", Text(), "By which /glass knows it."),
        _has("object", Text(choices=(kind,))),
        _has("created", _COUNT),
        _has("model", Text()),
        _has("system_fingerprint", Text(), "Another one: the same seed may answer differently."),
        _has("choices", ListOf(choice)),
        _has("usage", _USAGE),
        _has("timings", _TIMINGS),
    )


CHAT = _answer("ChatCompletion", "chat.completion", _CHOICE)
COMPLETION = _answer(
    "Completion",
    "text_completion",
    _shape(
        "TextChoice",
        _has("index", _COUNT),
        _has("text", Text()),
        _has("logprobs", _or_null(AnyObject())),
        _has("finish_reason", Text(choices=("stop", "length"))),
        _STOP_REASON,
    ),
)
RESPONSE = _shape(
    "Response",
    _has("id", Text(), "By which /glass knows it."),
    _has("object", Text(choices=("response",))),
    _has("created_at", _COUNT),
    _has("status", Text(choices=("completed", "incomplete"))),
    _has("model", Text()),
    _has("output", ListOf(AnyObject())),
    _has("usage", AnyObject()),
)
EMBEDDINGS = _shape(
    "EmbeddingList",
    _has("object", Text(choices=("list",))),
    _has(
        "data",
        ListOf(
            _shape(
                "Embedding",
                _has("object", Text(choices=("embedding",))),
                _has("index", _COUNT),
                _has("embedding", OneOf((Text(), ListOf(_NUMBER)))),
            )
        ),
    ),
    _has("model", Text()),
    _has(
        "usage",
        _shape("EmbeddingUsage", _has("prompt_tokens", _COUNT), _has("total_tokens", _COUNT)),
    ),
)
TOKENS = _shape(
    "Tokens",
    _has("tokens", ListOf(_COUNT)),
    _has("count", _COUNT),
    _has("max_model_len", _COUNT),
    Field("pieces", ListOf(Text())),
)
TEXT = _shape("TokensText", _has("content", Text()), _has("prompt", Text()))
ATTENTION = _shape(
    "Attention",
    _has("response", Text()),
    _has("layer", _COUNT),
    _has("heads", ListOf(_COUNT)),
    _has("first", _COUNT, "Position of the first row."),
    _has("attention", ListOf(ListOf(ListOf(_NUMBER))), "[heads, rows, positions]"),
)
LENS = _shape(
    "Lens",
    _has("response", Text()),
    _has("position", _COUNT),
    _has(
        "layers",
        ListOf(
            _shape(
                "LensLayer",
                _has("layer", _COUNT),
                _has("tokens", ListOf(_COUNT)),
                _has("texts", ListOf(Text())),
                _has("probabilities", ListOf(_NUMBER)),
            )
        ),
    ),
)
CACHE = _shape(
    "CacheHeld",
    _has("response", Text()),
    _has("tokens", ListOf(_COUNT)),
    _has("texts", ListOf(Text())),
    *(
        _has(name, _COUNT)
        for name in (
            "prompt_tokens",
            "first_query",
            "layers",
            "heads",
            "page_tokens",
            "pages",
            "pages_used",
            "pages_kept",
        )
    ),
)
DOCUMENT = _shape("Document", _has("openapi", Text()), _has("paths", MapOf(Anything(), most=1000)))
