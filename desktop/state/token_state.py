"""Text as the model has it: which token of the cache is which part of which message.

Pure, like everything in the state. Positions are those of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

LookBy = Literal["head", "layer", "locked", "rollout"]
TEMPLATE, SYSTEM = -1, -2  # owners of positions that no message of the conversation says
PART = "\ufffd"  # what a token that is a part of a character stands for


@dataclass(frozen=True, slots=True)
class XRay:
    """How the conversation shows its tokens; `at` is the position under the pointer."""

    shown: bool = False
    by: LookBy = "layer"
    layer: int = 0
    head: int = 0
    reverse: bool = False  # who looks at the token, not what it looks at
    probabilities: bool = False
    at: int | None = None
    flipped: bool = False  # while a key is held, the other direction

    @property
    def looks_back(self) -> bool:
        return self.reverse != self.flipped

    def fit(self, layers: int, heads: int, fresh: bool) -> XRay:
        """For a model of so many; a `fresh` one begins in the middle."""
        layer = layers // 2 if fresh else min(self.layer, layers - 1)
        return replace(self, layer=layer, head=min(self.head, heads - 1), at=None)


@dataclass(frozen=True, slots=True)
class Place:
    """A message in the cache: the template's tokens from `lead`, its own from `start`."""

    lead: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A message with what the template puts before it, cut into tokens."""

    text: str
    spans: tuple[tuple[int, int], ...]  # of characters, by token
    first: int | None  # position of the first token; None: not in the cache
    own: int  # tokens before those of the message itself
    skipped: int = 0  # tokens of the message before these
    sure: bool = True  # these are its tokens as generated, and not the text cut again

    def token(self, at: int) -> int | None:
        """Which token of the message is the one at `at` here; None: none, or not known."""
        return at - self.own + self.skipped if self.sure and at >= self.own else None


def unread(owners: tuple[int, ...], spoken: Sequence[bool]) -> bool:
    """Whether a message that says something has no place in the cache."""
    found = set(owners)
    return any(said and index not in found for index, said in enumerate(spoken))


def places(owners: tuple[int, ...]) -> dict[int, Place]:
    """By index of the message."""
    found: dict[int, Place] = {}
    lead = 0
    for position, owner in enumerate(owners):
        if owner < 0:
            continue
        known = found.get(owner)
        start = position if known is None else known.start
        found[owner] = Place(lead if known is None else known.lead, start, position + 1)
        lead = position + 1
    return found


def cut(owners: tuple[int, ...], messages: int) -> tuple[int, ...]:
    """Without the positions from the first on that belongs to a message after so many."""
    for position, owner in enumerate(owners):
        if owner >= messages:
            return owners[:position]
    return owners


def align(text: str, pieces: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Spans of characters of `text` that tokens stand for, in order; empty where unknown.

    Tokens that are parts of characters share what lies between their neighbours. The template may
    have trimmed the text, and a vocabulary may put a space before it.
    """
    spans: list[tuple[int, int]] = []
    at, waiting = 0, 0
    for piece in pieces:
        if not piece or PART in piece:
            waiting += 1
            spans.append((at, at))
            continue
        reach = at + 4 * waiting + len(piece) + 64
        start = text.find(piece, at, reach) if waiting or not text.startswith(piece, at) else at
        if start < 0:
            piece = piece.strip()
            start = text.find(piece, at, reach)
        if start < 0 or not piece:
            waiting += 1
            spans.append((at, at))
            continue
        _share(spans, waiting, at, start)
        spans.append((start, start + len(piece)))
        at, waiting = start + len(piece), 0
    _share(spans, waiting, at, len(text) if waiting else at)
    return tuple(spans)


def tokens_until(text: str, pieces: Sequence[str], characters: int) -> int | None:
    """How many first tokens reach so far in `text`; None where that is not known."""
    if not pieces:
        return None
    spans = align(text, pieces)
    return sum(start < characters for start, _ in spans)


def _share(spans: list[tuple[int, int]], count: int, start: int, stop: int) -> None:
    """Divide the characters start..stop-1 among the last `count` tokens."""
    for number in range(count):
        low = start + (stop - start) * number // count
        high = start + (stop - start) * (number + 1) // count
        spans[len(spans) - count + number] = (low, high)


def passage(
    text: str,
    pieces: Sequence[str],
    place: Place | None,
    labels: Sequence[str],
    count: int | None = None,
) -> Passage:
    """Of a message's text; `pieces` are its tokens as generated, where they are known.

    `labels` are the texts of all positions. `count` is the number of its tokens, where what they
    spell is not known.
    """
    many = len(pieces) if count is None else count
    if place is None:
        return Passage(text, align(text, pieces), None, 0)
    lead = "".join(labels[place.lead : place.start])
    spans, at = [], 0
    for label in labels[place.lead : place.start]:
        spans.append((at, at + len(label)))
        at += len(label)
    known = place.stop - place.start
    words = pieces if 0 <= len(pieces) - known <= 1 else labels[place.start : place.stop]
    held, sure = 0, 0 <= many - known <= 1
    if known < len(pieces) - 1:  # a part of it was forgotten
        held, sure = _held(pieces, labels[place.start : place.stop]), True
        own = align(text, pieces)[held : held + known]
    else:
        own = align(text, words)
    spans += [(at + low, at + high) for low, high in own]
    lead_tokens = place.start - place.lead
    return Passage(lead + text, tuple(spans), place.lead, lead_tokens, held, sure)


def _held(pieces: Sequence[str], labels: Sequence[str]) -> int:
    """Which of `pieces` is the first of those that are still there, beginning or end."""
    last = len(pieces) - len(labels)

    def alike(start: int) -> int:
        return sum(a == b for a, b in zip(pieces[start:], labels, strict=False))

    return max((0, last, last + 1), key=alike)
