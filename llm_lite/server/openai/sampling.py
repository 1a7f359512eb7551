"""How an answer is chosen: OpenAI's fields, and those that `SamplingOptions` has beside them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import Meta

from llm_lite.core.checked import CheckError
from llm_lite.core.generation.sampling import RANGES
from llm_lite.core.messages import ModelInfo, SamplingOptions
from llm_lite.server.openai.request import AnswerBody
from llm_lite.server.schema import Custom, Schema, about, read

_LEAST_SEED, _MOST_SEED = -(1 << 63), (1 << 64) - 1
_USUAL_TAU = 5.0  # of llama.cpp's server, for requests that only say that Mirostat is on
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
_TYPES = {field.name: int if field.type == "int" else float for field in fields(SamplingOptions)}
_RANGES = {name: (low, high) for name, low, high in RANGES if name not in _OWN_WAY}
_OTHER_NAMES = {"repeat_penalty": "repetition_penalty", "repeat_last_n": "penalty_window"}


def _field(name: str, option: str, about: str) -> tuple[str, Any, None]:
    kind: Any = _TYPES[option]
    low, high = _RANGES[option]
    ranged = Annotated[kind, Meta(ge=kind(low), le=kind(high))]
    return name, Annotated[ranged | None, Meta(description=about)] if about else ranged | None, None


if TYPE_CHECKING:

    class _Ranged(AnswerBody, kw_only=True):
        temperature: float | None = None  # these two are read by name
        top_p: float | None = None
else:
    _Ranged = msgspec.defstruct(
        "_Ranged",
        [
            *(_field(name, name, _ABOUT.get(name, "")) for name in _RANGES),
            *(_field(old, name, f"The same as {name}.") for old, name in _OTHER_NAMES.items()),
        ],
        bases=(AnswerBody,),
        module=__name__,
        kw_only=True,
    )


class Seed(int, Custom):
    """A number of 64 bits, with or without a sign."""

    @classmethod
    def read(cls, value: Any) -> Self:
        number: int = read(int, value)
        if not _LEAST_SEED <= number <= _MOST_SEED:
            expected = f"expected a whole number from {_LEAST_SEED} to {_MOST_SEED}"
            raise CheckError("", f"{expected}, found {str(number)[:40]}")
        return cls(number)

    @classmethod
    def schema(cls) -> Schema:
        return {"type": "integer", "minimum": _LEAST_SEED, "maximum": _MOST_SEED}


StopText = Annotated[str, Meta(min_length=1, max_length=1000)]
StopTexts = Annotated[list[StopText], Meta(max_length=32)]
TokenText = Annotated[str, Meta(pattern=r"^\d{1,9}(?!\n)$")]  # `$` alone allows a line break


class SamplingBody(_Ranged, kw_only=True):
    """A request for an answer, with how its tokens are chosen."""

    seed: Annotated[Seed | None, about("The same seed and request give the same answer.")] = None
    stop: Annotated[
        StopText | StopTexts | None, about("The answer ends before the first of these.")
    ] = None
    logit_bias: Annotated[
        Annotated[dict[TokenText, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)]
        | None,
        about("Added to the logits of tokens, by their ids."),
    ] = None
    repetition_guard: Annotated[
        bool | None, about("Whether an answer that repeats itself without an end is ended.")
    ] = None
    dry_breakers: Annotated[StopTexts | None, about("Repeats do not reach across these.")] = None
    dry_sequence_breakers: Annotated[StopTexts | None, about("The same as dry_breakers.")] = None
    mirostat: Annotated[
        Annotated[int, Meta(ge=0, le=2)] | None,
        about("0: off, whatever mirostat_tau is; 2: on. There is no 1 here."),
    ] = None
    grammar: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        about("The answer is a text of this grammar: GBNF or Lark."),
    ] = None
    json_schema: Annotated[
        dict[str, Any] | None,
        about("The answer is JSON of this schema, as llama.cpp's server takes it."),
    ] = None


def sampling_of(
    body: SamplingBody, max_new_tokens: int | None, model: ModelInfo
) -> SamplingOptions:
    """Return how an answer is chosen: what a request does not give is as the model advises, or else
    as this program does it; but an answer may be as long as the context."""
    names = {**{name: name for name in _RANGES}, **_OTHER_NAMES}
    given = ((option, getattr(body, name)) for name, option in names.items())
    chosen: dict[str, Any] = {option: value for option, value in given if value is not None}
    if body.seed is not None:
        chosen["seed"] = body.seed % (1 << 64)
    if body.stop is not None:
        chosen["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    if body.logit_bias is not None:
        chosen["logit_bias"] = tuple((int(t), value) for t, value in body.logit_bias.items())
    breakers = body.dry_sequence_breakers if body.dry_breakers is None else body.dry_breakers
    if breakers is not None:
        chosen["dry_breakers"] = tuple(breakers)
    if body.mirostat == 1:
        raise CheckError("mirostat", "version 1 is not supported by this server: expected 0 or 2")
    if body.mirostat == 0:
        chosen["mirostat_tau"] = 0.0
    elif body.mirostat == 2:
        chosen.setdefault("mirostat_tau", _USUAL_TAU)
    if body.grammar:
        chosen["grammar"] = body.grammar
    if body.repetition_guard is not None:
        chosen["repetition_guard"] = body.repetition_guard
    most = max(int(max_new_tokens or 0), 0)  # -1, as other servers have it: no limit
    return model.sampling(max_new_tokens=most or model.context, **chosen)


def of_choice(sampling: SamplingOptions, index: int) -> SamplingOptions:
    """Return the options of one of several answers to a prompt: each has a seed of its own."""
    if sampling.seed is None or not index:
        return sampling
    return replace(sampling, seed=(sampling.seed + index) % (1 << 64))
