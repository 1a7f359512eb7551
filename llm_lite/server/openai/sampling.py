"""The options of the sampler are fields of a request that wants an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import Meta

from llm_lite.core.checked import CheckError
from llm_lite.core.files.json_text import found
from llm_lite.core.messages import ModelInfo, SamplingOptions
from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIASES,
    MOST_TEXTS,
    OPTIONS,
    Option,
    names_in,
)
from llm_lite.core.records import replace
from llm_lite.core.tools.kept_schema import left_to_the_model
from llm_lite.server.openai.request import AnswerBody, whole_number
from llm_lite.server.schema import Custom, Schema, about

_USUAL_TAU = 5.0  # of llama.cpp's server, for requests that only say that Mirostat is on
# How long an answer may be and which schema it has, each address says in its own fields.
_TAKEN = {n: row for n, row in OPTIONS.items() if n not in ("max_new_tokens", "json_schema")}
# llama.cpp's names, where they are others.
_ALIASES = {alias: name for name, alias in names_in("llama-server").items() if alias != name}
OptionText = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
OptionTexts = Annotated[list[OptionText], Meta(max_length=MOST_TEXTS)]
TokenText = Annotated[str, Meta(pattern=r"^\d{1,9}(?!\n)$")]  # `$` alone allows a line break


class Seed(int, Custom):
    """A value is a number of 64 bits, with or without a sign; -1 is a new one for each answer."""

    least = -(1 << 63)
    most = (1 << 64) - 1

    @classmethod
    def read(cls, value: Any) -> Self:
        number = whole_number(value)
        if number is None or not cls.least <= number <= cls.most:
            expected = f"expected a whole number from {cls.least} to {cls.most}"
            raise CheckError("", f"{expected}, found {found(value)}")
        return cls(number)

    @classmethod
    def schema(cls) -> Schema:
        return {"type": "integer", "minimum": cls.least, "maximum": cls.most}


def type_of(row: Option, seed: type[Seed] = Seed) -> Any:
    """Return the type of an option's field."""
    match row.kind:
        case "number" | "biases":
            number = Annotated[float, Meta(ge=float(row.low), le=float(row.high))]
            if row.kind == "number":
                return number
            return Annotated[dict[TokenText, number], Meta(max_length=MOST_BIASES)]
        case "whole":
            is_seed = row.name == "seed"
            return seed if is_seed else Annotated[int, Meta(ge=int(row.least), le=int(row.high))]
        case "flag":
            return bool
        case "texts":
            return OptionText | OptionTexts if row.name == "stop" else OptionTexts
        case "text":
            return Annotated[str, Meta(min_length=1)]


if TYPE_CHECKING:

    class _Options(AnswerBody, kw_only=True):
        """The options, which are read by name."""

        temperature: float | None = None
        top_p: float | None = None
        grammar: str | None = None
else:
    _Options = msgspec.defstruct(
        "_Options",
        [
            *(
                (n, Annotated[type_of(row) | None, about(row.help)], None)
                for n, row in _TAKEN.items()
            ),
            *(
                (alias, Annotated[type_of(OPTIONS[n]) | None, about(f"The same as {n}.")], None)
                for alias, n in _ALIASES.items()
            ),
        ],
        bases=(AnswerBody,),
        module=__name__,
        kw_only=True,
    )


class SamplingBody(_Options, kw_only=True):
    """This is a request for an answer, with how its tokens are chosen."""

    mirostat: Annotated[
        Annotated[int, Meta(ge=0, le=2)] | None,
        about("0: off, whatever mirostat_tau is; 2: on. There is no 1 here."),
    ] = None
    json_schema: Annotated[
        dict[str, Any] | None,
        about(f"{OPTIONS['json_schema'].help} As llama.cpp's server takes it."),
    ] = None

    def unkept(self) -> list[str]:
        names = left_to_the_model(self.json_schema) if self.json_schema else []
        return [f"json_schema.{name}" for name in names]


def sampling_of(
    body: SamplingBody, max_new_tokens: int | None, model: ModelInfo
) -> SamplingOptions:
    """Return how an answer is chosen: what a request does not give is as the model advises, or else
    as this program does it; but an answer may be as long as the context."""
    chosen: dict[str, Any] = {}
    for given, name in (*_ALIASES.items(), *((name, name) for name in _TAKEN)):
        if (value := getattr(body, given)) is not None:
            chosen[name] = converted(OPTIONS[name], value)
    if body.mirostat == 1:
        raise CheckError("mirostat", "version 1 is not supported by this server: expected 0 or 2")
    if body.mirostat == 0:
        chosen["mirostat_tau"] = 0.0
    elif body.mirostat == 2:
        chosen.setdefault("mirostat_tau", _USUAL_TAU)
    most = max(int(max_new_tokens or 0), 0)  # -1, as other servers have it: no limit
    return model.sampling(max_new_tokens=most or model.context, **chosen)


def converted(row: Option, value: Any) -> Any:
    """Return a value of a request as `SamplingOptions` has it."""
    match row.kind:
        case "texts":
            return (value,) if isinstance(value, str) else tuple(value)
        case "biases":
            return tuple((int(token), bias) for token, bias in value.items())
    value = row.meant(value)
    return value % (1 << 64) if row.name == "seed" and value is not None else value


def of_choice(sampling: SamplingOptions, index: int) -> SamplingOptions:
    """Return the options of one of several answers to a prompt: each has a seed of its own."""
    if sampling.seed is None or not index:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % (1 << 64))
