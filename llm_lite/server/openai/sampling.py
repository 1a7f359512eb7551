"""How an answer is chosen: OpenAI's fields, and those that `SamplingOptions` has beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llm_lite.core.messages import ModelInfo, SamplingOptions
from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIASES,
    MOST_TEXTS,
    OPTIONS,
    Option,
    names_in,
)
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

_USUAL_TAU = 5.0  # of llama.cpp's server, for requests that only say that Mirostat is on
_TEXT = Text(least=1, most=LONGEST_TEXT)
_TEXTS = ListOf(_TEXT, most=MOST_TEXTS)
_SEEDS = Whole(-(1 << 63), (1 << 64) - 1)
# How long an answer may be and which form it has, each address says in its own fields.
_OWN_FIELDS = ("max_new_tokens", "json_schema", "grammar")
_TAKEN = {name: row for name, row in OPTIONS.items() if name not in _OWN_FIELDS}
# llama.cpp's names, where they are others. A dry_penalty_last_n of -1 means its whole context.
_ALIASES = {
    alias: name
    for name, alias in names_in("llama-server").items()
    if alias != name and name != "dry_window"
}


def _kind(row: Option) -> Kind:
    match row.kind:
        case "number":
            return Number(float(row.low), float(row.high))
        case "whole":
            return _SEEDS if row.name == "seed" else Whole(int(row.low), int(row.high))
        case "flag":
            return Flag()
        case "texts":
            return OneOf((_TEXT, _TEXTS)) if row.name == "stop" else _TEXTS
        case "biases":
            return MapOf(Number(row.low, row.high), most=MOST_BIASES, names=r"\d{1,9}")
        case "text":
            return Text(least=1)


SAMPLING: tuple[Field, ...] = (
    *(Field(name, _kind(row), row.help) for name, row in _TAKEN.items()),
    *(Field(old, _kind(OPTIONS[name]), f"The same as {name}.") for old, name in _ALIASES.items()),
    Field("mirostat", Whole(0, 2), "0: off, whatever mirostat_tau is; 2: on. There is no 1 here."),
)
GRAMMAR = Field("grammar", Text(least=1), OPTIONS["grammar"].help)
JSON_SCHEMA = Field(
    "json_schema", AnyObject(), f"{OPTIONS['json_schema'].help} As llama.cpp's server takes it."
)


def sampling_of(
    body: dict[str, Any], max_new_tokens: int | None, model: ModelInfo
) -> SamplingOptions:
    """What is not said is as the model advises, or else as this program does it; but for the
    length: up to the context's end."""
    chosen: dict[str, Any] = {}
    for said, name in (*_ALIASES.items(), *((name, name) for name in _TAKEN)):
        if body[said] is not None:
            chosen[name] = _converted(OPTIONS[name], body[said])
    if body["mirostat"] == 1:
        raise FieldProblem("mirostat", "version 1 is not supported by this server: expected 0 or 2")
    if body["mirostat"] == 0:
        chosen["mirostat_tau"] = 0.0
    elif body["mirostat"] == 2:
        chosen.setdefault("mirostat_tau", _USUAL_TAU)
    if body.get("grammar"):
        chosen["grammar"] = body["grammar"]
    most = max(max_new_tokens or 0, 0)  # -1, as other servers have it: no limit
    return model.sampling(max_new_tokens=most or model.context, **chosen)


def _converted(row: Option, value: Any) -> Any:
    """Return a value of a request as `SamplingOptions` has it."""
    match row.kind:
        case "texts":
            return (value,) if isinstance(value, str) else tuple(value)
        case "biases":
            return tuple((int(token), bias) for token, bias in value.items())
    return value % (1 << 64) if row.name == "seed" else value


def of_choice(sampling: SamplingOptions, index: int) -> SamplingOptions:
    """Of several answers to one prompt, each has a seed of its own."""
    if sampling.seed is None or not index:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % (1 << 64))
