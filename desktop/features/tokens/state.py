"""The tokens of messages: for each position in the cache, its message and its part of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import ModelInfo
from llm_lite.core.records import replace

DraftOutcome = Literal["", "accepted", "rejected"]  # the latter: something else came
LookBy = Literal["head", "layer", "locked", "rollout"]
TEMPLATE, SYSTEM = -1, -2  # owners of positions that no message of the conversation says
TARGET = -3  # owner of those of an encoder-decoder's target
PART = "\ufffd"  # what a token that is a part of a character stands for


class XRay(Struct, frozen=True):
    """The way in which the conversation shows tokens; `at` is the position under the pointer."""

    shown: bool = False
    by: LookBy = "layer"
    layer: int = 0
    head: int = 0
    reverse: bool = False  # who looks at the token, not what it looks at
    probabilities: bool = False
    drafts: bool = False  # what was guessed ahead, right and wrong
    at: int | None = None
    flipped: bool = False  # while a key is held, the other direction
    fitted: bool = False  # layer and head were chosen, or fitted to a model

    @property
    def looks_back(self) -> bool:
        return self.reverse != self.flipped

    def of_next_conversation(self) -> XRay:
        return replace(self, at=None)

    def of_next_model(self) -> XRay:
        return replace(self, at=None)

    def fit(self, model: ModelInfo) -> XRay:
        """Fit layer and head to a model. For the first one the layer is in the middle of those that
        attend."""
        layers = model.attending_layers
        layer = min(layers, key=lambda layer: abs(layer - self.layer), default=0)
        if not self.fitted and layers:
            layer = layers[len(layers) // 2]
        head = max(min(self.head, model.heads - 1), 0)
        return replace(self, layer=layer, head=head, at=None, fitted=True)


ENDS = re.compile(r"^[<\[].*(/|end|eot|eos|eom|return)", re.IGNORECASE)  # names of such tokens


class Place(Struct, frozen=True):
    """A message in the cache: the template's tokens from `lead`, its own from `start` to before
    `stop`, and up to `end` those by which the template ends it."""

    lead: int
    start: int
    stop: int
    end: int = 0


class Passage(Struct, frozen=True):
    """A message with what the template puts before it and how that ends it, cut into tokens."""

    text: str
    spans: tuple[tuple[int, int], ...]  # of characters, by token
    first: int | None  # position of the first token; None: not in the cache
    own: int  # tokens before those of the message itself
    skipped: int = 0  # tokens of the message before these
    sure: bool = True  # these are its tokens as generated, and not the text cut again
    tail: int = 0  # tokens after those of the message

    @property
    def behind(self) -> int:
        """Return the index of the first token after those of the message."""
        return len(self.spans) - self.tail

    @property
    def breaks(self) -> bool:
        """Return whether the template ends the message with a line break."""
        return self.tail > 0 and self.text.endswith("\n")

    def token(self, at: int) -> int | None:
        """Return the index in the message of the token at `at` here; None if none is known."""
        inside = self.own <= at < self.behind
        return at - self.own + self.skipped if self.sure and inside else None


def unread(owners: tuple[int, ...], has_text: Sequence[bool]) -> bool:
    """Return whether a message with text has no place in the cache."""
    found = set(owners)
    return any(one and index not in found for index, one in enumerate(has_text))


def ending(labels: Sequence[str]) -> int:
    """Count the template's tokens between two messages that end the first one: a token with the
    name of an end, as <|im_end|>, </s> or [/INST], and the breaks behind it."""
    first = next((at for at, label in enumerate(labels) if label.strip()), None)
    if first is None or not ENDS.search(labels[first].strip()):
        return 0
    behind = first + 1
    while behind < len(labels) and not labels[behind].strip():
        behind += 1
    return behind


def places(owners: tuple[int, ...], labels: Sequence[str] = ()) -> dict[int, Place]:
    """Find the place of each message by its index; `labels` are the texts of all positions."""
    found: dict[int, Place] = {}
    lead, last = 0, -1  # where the template goes on, and behind which message
    for position, owner in enumerate(owners):
        if owner < 0:
            continue
        known = found.get(owner)
        if known is None and last >= 0:
            lead += ending(labels[lead:position])
            found[last] = replace(found[last], end=lead)
        start = position if known is None else known.start
        begin = lead if known is None else known.lead
        found[owner] = Place(begin, start, position + 1, position + 1)
        lead, last = position + 1, owner
    return found


def cut(owners: tuple[int, ...], messages: int) -> tuple[int, ...]:
    """Cut the positions from the first one on that belongs to a message after so many."""
    for position, owner in enumerate(owners):
        if owner >= messages:
            return owners[:position]
    return owners


def align(text: str, pieces: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Find the spans of characters of `text` that tokens stand for, in order; empty if unknown.

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
    """Count the first tokens that begin before so many characters; None if that is not known."""
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
    """Cut a message's text into tokens; `pieces` are those generated, if they are known.

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
    after = labels[place.stop : place.end]
    own = own[:known] if after else own  # of the last token, only its successor knows
    spans += [(at + low, at + high) for low, high in own]
    at += len(text)
    for label in after:
        spans.append((at, at + len(label)))
        at += len(label)
    whole, lead_tokens = lead + text + "".join(after), place.start - place.lead
    return Passage(whole, tuple(spans), place.lead, lead_tokens, held, sure, len(after))


def _held(pieces: Sequence[str], labels: Sequence[str]) -> int:
    """Return the index of the first of `pieces` that are still there, at their beginning or end."""
    last = len(pieces) - len(labels)

    def alike(start: int) -> int:
        return sum(a == b for a, b in zip(pieces[start:], labels, strict=False))

    return max((0, last, last + 1), key=alike)
