"""The contents of a cache as parts of a conversation: tokens by position, and what was forgotten
between them.

Two kinds of places: *positions* count what the cache holds, *full* indices count all tokens of the
conversation, forgotten ones included. They are the same until something is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from llm_lite.core.messages import Overflow
from llm_lite.core.messages.interventions import UNCHANGED, LiveChanges
from llm_lite.core.records import replace

SINKS = 4  # first tokens that a rolling window keeps (Xiao et al. 2023, attention sinks)
SMALLEST = 16  # positions; in a smaller context nothing can be forgotten sensibly
_ROOM = 8  # a context's share that is freed when it is full, so that it is done seldom

Precision = Literal["whole", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)  # from exact to coarse


def coarsest(*precisions: Precision) -> Precision:
    return max(precisions, key=PRECISIONS.index)


def precision_of(dtypes: Iterable[str]) -> Precision:
    """Return the precision of keys or values that were rounded to these types of caches."""
    found: dict[str, Precision] = {"i8": "int8", "i4": "int4"}
    return coarsest("whole", *(found.get(dtype, "whole") for dtype in dtypes))


class Conditions(Struct, frozen=True):
    """The identity of what a position was computed with: the mode of the weights, the arithmetic of
    the products, the precision of keys and values, and the interventions. Positions of equal tokens
    under the same conditions are as good as computed again."""

    weights: str = ""  # "int4"
    arithmetic: str = ""  # "a8"
    precision: Precision = "whole"  # int8, int4: its keys or values were once rounded so
    interventions: LiveChanges = UNCHANGED

    @classmethod
    def of(cls, made_by: str, interventions: LiveChanges = UNCHANGED) -> Conditions:
        """Return the conditions of weights and arithmetic as `made_by` names them."""
        weights, _, arithmetic = made_by.partition(" ")
        return cls(weights, arithmetic, interventions=interventions)

    @property
    def made_by(self) -> str:
        """Return the names of weights and arithmetic: "int4 a8"."""
        return f"{self.weights} {self.arithmetic}".strip()

    def rounded(self, precision: Precision) -> Conditions:
        """Return the conditions after keys and values were kept in that precision, too."""
        if coarsest(self.precision, precision) == self.precision:
            return self
        return replace(self, precision=precision)


class Gap(Struct, frozen=True):
    """Tokens that were forgotten, the first of them at a full index."""

    first: int
    tokens: tuple[int, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.tokens)


class CacheContents(Struct, frozen=True):
    """The token of each position and its conditions; gaps by ascending full index."""

    tokens: tuple[int, ...] = ()
    conditions: tuple[Conditions, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def full_tokens(self) -> list[int]:
        """Return all tokens by full index."""
        full = list(self.tokens)
        for gap in self.gaps:
            full[gap.first : gap.first] = gap.tokens
        return full

    def first(self, positions: int) -> CacheContents:
        """Return only the first positions, without the gaps behind them."""
        kept = tuple(
            g for g, at in zip(self.gaps, self.gap_positions(), strict=True) if at < positions
        )
        return CacheContents(self.tokens[:positions], self.conditions[:positions], kept)

    def gap_positions(self) -> list[int]:
        """Return for each gap the position before which its tokens are missing."""
        positions, gone = [], 0
        for gap in self.gaps:
            positions.append(gap.first - gone)
            gone += len(gap.tokens)
        return positions

    def without(self, keep: int, drop: int) -> CacheContents:
        """Return the contents after positions keep..keep+drop-1 were forgotten."""
        full_tokens, missing = self.full_tokens(), self.missing()
        present = [i for i, gone in enumerate(missing) if not gone]
        for index in present[keep : keep + drop]:
            missing[index] = True
        tokens = self.tokens[:keep] + self.tokens[keep + drop :]
        return CacheContents(
            tokens,
            self.conditions[:keep] + self.conditions[keep + drop :],
            _gaps(full_tokens, missing),
        )

    def missing(self) -> list[bool]:
        """Return by full index whether a token is missing."""
        mask = [False] * len(self.tokens)
        for gap in self.gaps:
            mask[gap.first : gap.first] = [True] * len(gap.tokens)
        return mask


class Match(Struct, frozen=True):
    """The first `positions` of a cache agree with the first `full` tokens of a prompt."""

    full: int
    positions: int


def match(contents: CacheContents, prompt: Sequence[int], reusable: int, *, gaps: bool) -> Match:
    """Return how much of a prompt the cache has, of its first `reusable` positions; the last token
    never counts, as its logits are needed. With `gaps`, forgotten tokens count as computed."""
    limit = len(prompt) - 1
    if gaps and contents.gaps:
        same = common(contents.full_tokens(), prompt, limit)
        gone = sum(len(gap.tokens) for gap in contents.gaps)
        positions = min(same - gone, reusable)
        if same > contents.gaps[-1].last and positions > contents.gap_positions()[-1]:
            return Match(positions + gone, positions)
    whole = min(reusable, limit, contents.gaps[0].first if contents.gaps else limit)
    same = common(contents.tokens, prompt, whole)
    return Match(same, same)


class PrefillPlan(Struct, frozen=True):
    """The plan of reading a prompt into a cache: `reused` positions stay, of these `forget` (first,
    count) are forgotten; then the prompt is read from the full index `start` on, without `skip`."""

    reused: int
    start: int
    forget: tuple[int, int] | None = None
    skip: range = range(0)


def plan_prefill(
    contents: CacheContents,
    prompt: Sequence[int],
    reusable: int,
    policy: Overflow,
    head: int,
    context: int,
) -> PrefillPlan:
    """Plan how to bring `prompt` into a cache of `context` positions, of whose `contents` the first
    `reusable` positions may be used. `head` tokens are never forgotten, if they are not more than
    half.

    With policy "stop" nothing is forgotten; a prompt that is too long is the caller's affair.
    """
    plain = match(contents, prompt, reusable, gaps=False)
    if policy == "stop" or len(prompt) <= context or context < SMALLEST:
        return PrefillPlan(plain.positions, plain.full)
    keep = first_kept(policy, head, context)
    found = match(contents, prompt, reusable, gaps=True)
    over = found.positions + len(prompt) - found.full - context
    if over <= 0:
        return PrefillPlan(found.positions, found.full)
    drop = max(over, context // _ROOM)
    if drop <= found.positions - keep:
        return PrefillPlan(found.positions, found.full, (keep, drop))
    skip = range(keep, len(prompt) - (context - context // _ROOM - keep))
    start = min(plain.positions, keep)
    return PrefillPlan(start, start, None, skip)


def forgetting(policy: Overflow, head: int, context: int) -> tuple[int, int] | None:
    """Return (first, count) of positions to forget of a full cache; None: the answer stops."""
    if policy == "stop" or context < SMALLEST:
        return None
    keep = first_kept(policy, head, context)
    if policy == "forget-middle":
        return keep, (context - keep) // 2
    return keep, context // _ROOM


def first_kept(policy: Overflow, head: int, context: int) -> int:
    """Return how many first positions stay."""
    return SINKS if policy == "rolling" else max(SINKS, min(head, context // 2))


def common(a: Sequence[int], b: Sequence[int], limit: int) -> int:
    """Return how many first tokens are the same, at most `limit`."""
    limit = min(limit, len(a), len(b))
    return next((i for i in range(limit) if a[i] != b[i]), max(0, limit))


def _gaps(full_tokens: Sequence[int], missing: Sequence[bool]) -> tuple[Gap, ...]:
    edges = [
        i
        for i in range(len(missing) + 1)
        if (i < len(missing) and missing[i]) != (i > 0 and missing[i - 1])
    ]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple(Gap(first, tuple(full_tokens[first:last])) for first, last in pairs)
