"""The text that the engine's cache holds: the tokens, whose each one is, when it was computed, what
of the conversation was forgotten; and how much of it is the conversation in front.

Positions are those of the cache, tokens those of the full conversation; the two are the same until
something is forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import PromptToken, ToolSpec
from llm_lite.core.records import replace
from llm_lite.desktop.features.tokens.state import TEMPLATE, cut

Spans = tuple[tuple[int, int], ...]  # first..last-1
# Pairs of a token and the number of its computation: both count on from there.
ComputedRuns = tuple[tuple[int, int], ...]


class PromptSettings(Struct, frozen=True):
    """The parts of a prompt that are no messages of the conversation."""

    raw: bool = False  # the messages are one text, without a template
    system_prompt: str = ""
    thinking: bool = True
    values: tuple[tuple[str, Any], ...] = ()  # of other variables of the template
    tools: tuple[ToolSpec, ...] = ()

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the fields that commands with a conversation have for this, but for the system
        prompt, which is a message of theirs."""
        values = dict(self.values)
        return {"raw": self.raw, "thinking": self.thinking, "tools": self.tools, "values": values}


class CachedText(Struct, frozen=True):
    """The text in the engine's cache. `all_owners` has the owners of the full
    conversation where something of it was forgotten; `reused`, `runs`, `turn_starts` and
    `forgotten` count its tokens, not positions."""

    chat: int = 0  # the conversation's number, as `AppState.chat`
    messages: tuple[int, ...] = ()  # their ids
    prompt_settings: PromptSettings | None = None  # None: the text is no conversation
    texts: tuple[str, ...] = ()  # by position, of what is being read too
    ids: tuple[int, ...] = ()  # likewise
    owners: tuple[int, ...] = ()  # likewise: a message's index, TEMPLATE, SYSTEM, TARGET
    used: int = 0  # the first positions that are computed by now
    unknown: int = 0  # computed positions behind all of these, of an answer that was left
    reused: int = 0  # first tokens that the last answer found computed
    runs: ComputedRuns = ()
    computed: int = 0  # tokens so far, in all, of other texts too
    turn_starts: tuple[int, ...] = ()
    all_owners: tuple[int, ...] = ()
    forgotten: Spans = ()
    is_cut: bool = False  # its prompt goes on: only these first tokens were read
    # False: an answer that was left is still being written, whose tokens nobody tells of
    is_known: bool = True

    def of_next_conversation(self) -> CachedText:
        """Return the text as it is: it names its messages."""
        return self

    def of_next_model(self) -> CachedText:
        return CachedText(computed=self.computed)

    @property
    def length(self) -> int:
        """Return how many positions are computed by now."""
        return self.used + self.unknown

    @property
    def tokens(self) -> int:
        """Return how many tokens the full conversation has."""
        return len(self.all_owners or self.owners)

    def computed_to(self, used: int) -> CachedText:
        """Return the text with so many positions computed; a prompt that goes on is read to its end
        with the last of them."""
        if used == self.used:
            return self
        return replace(self, used=used, is_cut=self.is_cut and used < len(self.owners))

    def first(self, positions: int) -> CachedText:
        """Return the first positions alone."""
        gone = self.tokens - len(self.owners) if self.forgotten else 0
        tokens = positions + gone if self.forgotten else positions
        return replace(
            self,
            texts=self.texts[:positions],
            ids=self.ids[:positions],
            owners=self.owners[:positions],
            used=min(self.used, positions),
            unknown=0,
            is_cut=self.is_cut and positions >= len(self.owners),
            reused=min(self.reused, tokens),
            runs=tuple((first, number) for first, number in self.runs if first < tokens),
            turn_starts=tuple(start for start in self.turn_starts if start < tokens),
            all_owners=self.all_owners[:tokens],
        )

    def with_messages(self, count: int) -> CachedText:
        """Return the text as one whose first `count` messages alone are known to be its own."""
        return replace(self, messages=self.messages[:count])


def shared_messages(cached: CachedText, messages: Sequence[Any]) -> int:
    """Return how many of the first messages are those of the cached text."""
    return common(cached.messages, [message.id for message in messages])


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many of the first tokens, or texts of tokens, are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def of_messages(cached: CachedText, messages: int) -> CachedText:
    """Return the text up to the first token of a message after so many."""
    positions = len(cut(cached.owners, messages))
    behind = cached.owners[positions : positions + 1]
    if messages < len(cached.messages) and behind != (messages,):
        # The next message had no token: what the template wrote for it is not of what is in front.
        while positions and cached.owners[positions - 1] == TEMPLATE:
            positions -= 1
    if positions == len(cached.owners):
        return cached
    if not cached.forgotten:
        return cached.first(positions)
    owners = cut(cached.all_owners, messages)
    forgotten = tuple(
        (first, min(last, len(owners))) for first, last in cached.forgotten if first < len(owners)
    )
    return replace(cached.first(positions), all_owners=owners, forgotten=forgotten)


def begun(
    cached: CachedText, prompt: Sequence[PromptToken], owners: tuple[int, ...], reused: int,
    tokens: int, used: int, chat: int, messages: tuple[int, ...], prompt_settings: PromptSettings,
) -> CachedText:  # fmt: skip
    """Return the text of a prompt of so many `tokens`, whose `reused` first positions were computed
    and `used` are by now; the conversation's number, the ids of its messages, and what the
    prompt was made with."""
    reused = _token(cached, reused - 1) + 1 if reused else 0
    kept = tuple((first, number) for first, number in cached.runs if first < reused)
    fresh = ((reused, cached.computed),) if tokens > reused else ()
    return CachedText(
        chat,
        messages,
        prompt_settings,
        texts=tuple(token.text for token in prompt),
        ids=tuple(token.id for token in prompt),
        owners=owners,
        used=used,
        reused=reused,
        runs=(*kept, *fresh),
        computed=cached.computed + tokens - reused,
        is_cut=used < len(owners),
    )


def plain(
    cached: CachedText, texts: tuple[str, ...], owners: tuple[int, ...], used: int, kept: int = 0
) -> CachedText:
    """Return a text that is no conversation: an encoder's, or a target, whose `kept` first tokens
    are those that were there."""
    runs = tuple(run for run in cached.runs if run[0] < kept)
    if len(texts) > kept:
        runs = (*runs, (kept, cached.computed))
    computed = cached.computed + len(texts) - kept
    return CachedText(texts=texts, owners=owners, used=used, runs=runs, computed=computed)


def decoded(
    cached: CachedText, tokens: Sequence[tuple[int, str]], owner: int, used: int
) -> CachedText:
    """Return the text with further tokens, pairs of an id and a text; `used` positions are computed
    by now."""
    runs, token, count = cached.runs, cached.tokens, len(tokens)
    if not runs or runs[-1][1] + token - runs[-1][0] != cached.computed:
        runs = (*runs, (token, cached.computed))
    more = (owner,) * count
    return replace(
        cached,
        texts=(*cached.texts, *(text for _, text in tokens)),
        ids=(*cached.ids, *(id for id, _ in tokens)),
        owners=(*cached.owners, *more),
        used=used,
        unknown=0,
        is_cut=False,
        runs=runs,
        computed=cached.computed + count,
        all_owners=(*cached.all_owners, *more) if cached.forgotten else (),
    )


def rewritten(
    cached: CachedText, prompt: Sequence[PromptToken], owners: tuple[int, ...], forgotten: Spans
) -> CachedText:
    """Return the text as it is once something was forgotten."""
    return replace(
        cached,
        texts=tuple(token.text for token in prompt),
        ids=tuple(token.id for token in prompt),
        owners=owners,
        used=len(owners),
        unknown=0,
        all_owners=cached.all_owners or cached.owners,
        forgotten=forgotten,
    )


def with_turns(cached: CachedText, questions: Collection[int]) -> CachedText:
    """Find where turns begin: each with one of `questions`, indices of messages, behind what the
    template puts before it."""
    starts: list[int] = []
    lead, before = 0, TEMPLATE
    for position, owner in enumerate(cached.all_owners or cached.owners):
        if owner in questions and owner != before:
            starts.append(lead)
        if owner != TEMPLATE:
            lead, before = position + 1, owner
    return replace(cached, turn_starts=tuple(starts))


def turns(cached: CachedText) -> tuple[int, ...]:
    """Return the tokens of each turn: a question and its answer, with the template's."""
    return tuple(b - a for a, b in pairwise((*cached.turn_starts, cached.tokens)))


def _token(cached: CachedText, position: int) -> int:
    """Return which token of the full conversation is at a position."""
    for first, last in cached.forgotten:
        position += last - first if position >= first else 0
    return position


def reused_positions(cached: CachedText) -> int:
    """Return how many first positions the last answer found computed."""
    gone = (max(0, min(last, cached.reused) - first) for first, last in cached.forgotten)
    return cached.reused - sum(gone)


def serials(cached: CachedText, positions: int) -> NDArray[np.int64]:
    """Return the number of the computation that made each of the first `positions` positions."""
    count = positions + sum(last - first for first, last in cached.forgotten)
    numbers, held = np.arange(count), np.ones(count, bool)
    for first, number in cached.runs:
        numbers[first:] = np.arange(number, number + max(count - first, 0))
    for first, last in cached.forgotten:
        held[first:last] = False
    return numbers[held][:positions]


def age(cached: CachedText, position: int) -> int:
    """Return how many tokens were computed since that position was."""
    token = _token(cached, position)
    index = bisect_right(cached.runs, (token, 1 << 62)) - 1
    first, number = cached.runs[index] if index >= 0 else (0, 0)
    return max(0, cached.computed - 1 - (number + token - first))


def unseen(cached: CachedText) -> dict[int, tuple[int, int]]:
    """Return counts of forgotten and of all tokens, by each message that lost some."""
    found: dict[int, list[int]] = {}
    if not cached.forgotten:
        return {}
    gone = np.zeros(len(cached.all_owners), bool)
    for first, last in cached.forgotten:
        gone[first:last] = True
    owners = np.array(cached.all_owners)
    for owner in np.unique(owners[gone]).tolist():
        if owner >= 0:
            mine = owners == owner
            found[owner] = [int((gone & mine).sum()), int(mine.sum())]
    return {owner: (lost, whole) for owner, (lost, whole) in found.items()}
