"""The cache of keys and values: what is in it, what was forgotten, to a file and back."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from llm_lite.core.messages.answers import PromptToken
from llm_lite.core.messages.kinds import Command, Event, StepRequest
from llm_lite.core.records import about

Measure = Literal["key-norm", "value-norm", "received"]


class MeasureCache(StepRequest, frozen=True):
    """Ask for a CacheMeasured of the positions `first`..`last`-1, or up to the end; served between
    two tokens."""

    what: Annotated[Measure, about("The norm of keys or values, or the attention received.")]
    first: Annotated[int, about("The first position.")] = 0
    last: Annotated[int | None, about("The position behind the last; without it, the end.")] = None


class SaveCache(Command, frozen=True):
    """Write the cache's rows and tokens to a file."""

    path: str


class OpenCache(Command, frozen=True):
    """Read a file of SaveCache; one of another model or a damaged one is only logged."""

    path: str


class CacheRewritten(Event, frozen=True):
    """The context was full and a part of it was forgotten."""

    tokens: tuple[PromptToken, ...]  # all that the cache holds now, by position
    forgotten: tuple[tuple[int, int], ...]  # of the full prompt and answer: first..last-1


class PooledPrefix(Struct, frozen=True):
    name: str
    tokens: int
    bytes: int
    conversation: int = 0  # of the history; 0: not known
    kept: float = 0.0  # when, seconds since the epoch


class CacheStatus(Event, frozen=True):
    """The state of the cache, sent at the start and the end of an answer, and after loads."""

    length: int  # tokens in the cache
    context: int
    reused: int  # of these, not computed again for the last answer
    pool_used: int  # bytes
    pool_budget: int  # bytes
    prefixes: tuple[PooledPrefix, ...]
    saved_bytes: int  # of the rows that were reused


class CacheMeasured(Event, frozen=True):
    """A number for each position `first`.. of each layer that owns a cache."""

    what: Measure
    first: int
    version: int
    values: tuple[tuple[float, ...], ...]  # [layers][positions]; nan where nothing is known
    layers: tuple[int, ...] = ()  # their numbers; () where an older server does not tell them
