"""How an answer is chosen: OpenAI's fields, and those that `SamplingOptions` has beside them."""

from __future__ import annotations

from typing import Any

from llm_lite.core.generation.sampling import RANGES
from llm_lite.core.messages import ModelInfo, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.server.tables.kinds import (
    AnyObject,
    FieldProblem,
    Flag,
    Kind,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Text,
    Whole,
)
from llm_lite.server.tables.records import Field

_MOST_STOPS = 32
_USUAL_TAU = 5.0  # of llama.cpp's server, for requests that only say that Mirostat is on
_STOP = Text(least=1, most=1000)
_ABOUT = {
    "temperature": "0 always takes the likeliest token.",
    "top_k": "Only so many likeliest tokens; 0: all.",
    "top_p": "Only the likeliest tokens that have this probability together.",
    "min_p": "Only tokens of at least this share of the likeliest one's probability.",
    "typical_p": "Locally typical sampling; 1: off.",
    "repetition_penalty": "Divides the logits of tokens that were said; 1: off.",
    "presence_penalty": "Subtracted from the logits of tokens that were said.",
    "frequency_penalty": "Subtracted as often as they were said.",
    "penalty_window": "How many last tokens the penalties look at.",
    "max_thinking_tokens": "Thoughts end after so many tokens; 0: when the model likes.",
    "mirostat_tau": "Bits of surprise that are aimed at; 0: off.",
}
_OWN_WAY = ("seed", "max_new_tokens")  # whose names or ranges are not the engine's
_NAMES = SamplingOptions.__annotations__
_OTHER_NAMES = {"repeat_penalty": "repetition_penalty", "repeat_last_n": "penalty_window"}


def _kind(name: str, low: float, high: float) -> Kind:
    whole = _NAMES[name] == "int"
    return Whole(int(low), int(high)) if whole else Number(float(low), float(high))


_RANGED = {name: _kind(name, low, high) for name, low, high in RANGES if name not in _OWN_WAY}
_SEEDS = Whole(-(1 << 63), (1 << 64) - 1)

SAMPLING: tuple[Field, ...] = (
    *(Field(name, kind, _ABOUT.get(name, "")) for name, kind in _RANGED.items()),
    *(Field(old, _RANGED[name], f"The same as {name}.") for old, name in _OTHER_NAMES.items()),
    Field("seed", _SEEDS, "The same seed and request give the same answer."),
    Field(
        "stop",
        OneOf((_STOP, ListOf(_STOP, most=_MOST_STOPS))),
        "The answer ends before the first of these.",
    ),
    Field(
        "logit_bias",
        MapOf(Number(-100, 100), most=1024, names=r"\d{1,9}"),
        "Added to the logits of tokens, by their ids.",
    ),
    Field(
        "repetition_guard",
        Flag(),
        "Whether an answer that repeats itself without an end is ended.",
    ),
    Field("dry_breakers", ListOf(_STOP, most=_MOST_STOPS), "Repeats do not reach across these."),
    Field("dry_sequence_breakers", ListOf(_STOP, most=_MOST_STOPS), "The same as dry_breakers."),
    Field("mirostat", Whole(0, 2), "0: off, whatever mirostat_tau is; 2: on. There is no 1 here."),
)
GRAMMAR = Field("grammar", Text(least=1), "The answer is a text of this grammar: GBNF or Lark.")
JSON_SCHEMA = Field(
    "json_schema", AnyObject(), "The answer is JSON of this schema, as llama.cpp's server takes it."
)


def sampling_of(
    body: dict[str, Any], max_new_tokens: int | None, model: ModelInfo
) -> SamplingOptions:
    """What is not said is as the model advises, or else as this program does it; but for the
    length: up to the context's end."""
    chosen: dict[str, Any] = {name: body[name] for name in _RANGED if body[name] is not None}
    for old, name in _OTHER_NAMES.items():
        if body[old] is not None:
            chosen[name] = body[old]
    if body["seed"] is not None:
        chosen["seed"] = body["seed"] % (1 << 64)
    stop = body["stop"]
    if stop is not None:
        chosen["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    if body["logit_bias"] is not None:
        pairs = body["logit_bias"].items()
        chosen["logit_bias"] = tuple((int(token), value) for token, value in pairs)
    for name in ("dry_sequence_breakers", "dry_breakers"):
        if body[name] is not None:
            chosen["dry_breakers"] = tuple(body[name])
    if body["mirostat"] == 1:
        raise FieldProblem("mirostat", "version 1 is not supported by this server: expected 0 or 2")
    if body["mirostat"] == 0:
        chosen["mirostat_tau"] = 0.0
    elif body["mirostat"] == 2:
        chosen.setdefault("mirostat_tau", _USUAL_TAU)
    if body.get("grammar"):
        chosen["grammar"] = body["grammar"]
    most = max(max_new_tokens or 0, 0)  # -1, as other servers have it: no limit
    if body["repetition_guard"] is not None:
        chosen["repetition_guard"] = body["repetition_guard"]
    return model.sampling(max_new_tokens=most or model.context, **chosen)


def of_choice(sampling: SamplingOptions, index: int) -> SamplingOptions:
    """Of several answers to one prompt, each has a seed of its own."""
    if sampling.seed is None or not index:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % (1 << 64))
