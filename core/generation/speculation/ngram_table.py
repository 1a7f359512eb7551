"""A table of fixed size of the token that followed the last 2, 3 or 4 tokens in what a model wrote
before.

A context is its longest one that is known, as in prediction by partial matching (Cleary and Witten
1984). Entries lie in buckets by the hash of their context, as in branch predictors of that kind
(TAGE: Seznec and Michaud 2006): looking up, learning and making room take constant time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

SHORTEST, LONGEST = 2, 4  # tokens of a context; docs/speculation.md has what was measured
ENTRIES = 1 << 17  # 1.4 MB; 10,000 tokens of answers about alike topics need some 17,000 of them
WAYS = 4  # entries of a bucket; the least useful one makes room
PLANES = (  # of the table, each [ENTRIES], as they lie in its file
    ("tags", np.dtype("<u4")),  # of the context; 0: the entry is empty
    ("tokens", np.dtype("<u4")),  # what followed most often
    ("right", np.dtype("u1")),  # how often it did
    ("wrong", np.dtype("u1")),  # how often another token did
    ("uses", np.dtype("u1")),  # how often the context came, less as others want its place
)
_BUCKETS = ENTRIES // WAYS
MOST_COUNTED = 255  # that a count can hold: then the counts of an entry are halved
_MASK = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio (Knuth, The Art of Computer Programming 6.4)
_MOST_CONFIRMED = 4  # times that a token followed; more of them say no more
_DOUBT = 2  # what a time counts when another token followed


class Follower(Struct, frozen=True):
    """The token that follows, and the evidence for it: 1 for one that followed two tokens once,
    twice as much for every further token of the context."""

    token: int
    evidence: int


class NgramTable:
    """The n-gram table of one model. Tokens are smaller than 2^32."""

    def __init__(self, planes: Sequence[NDArray[np.generic]] | None = None) -> None:
        """Make a table of `planes`, as in `PLANES`, which become its own; without them an empty
        one."""
        self.planes = tuple(planes or (np.zeros(ENTRIES, dtype) for _, dtype in PLANES))
        # A memoryview gives and takes Python's integers, three times as fast as an array.
        views = [plane.data for plane in self.planes]
        self._tags, self._tokens, self._right, self._wrong, self._uses = views

    def __len__(self) -> int:
        """Return the number of entries in use."""
        return int(np.count_nonzero(self.planes[0]))

    def learn(self, tokens: Sequence[int]) -> None:
        """Learn a text of the model, from its first token."""
        for end in range(SHORTEST, len(tokens)):
            for key in _keys(tokens[max(0, end - LONGEST) : end]):
                self._count(key, tokens[end])

    def follower(self, tokens: Sequence[int]) -> Follower | None:
        """Return what follows the last of these tokens, by the longest context that is known; None
        if none is, or if different tokens have followed it."""
        keys = _keys(tokens[-LONGEST:])
        for extra in reversed(range(len(keys))):
            at = self._find(keys[extra])
            if at >= 0:
                confirmed = self._right[at] - _DOUBT * self._wrong[at]
                if confirmed <= 0:
                    return None
                return Follower(self._tokens[at], min(confirmed, _MOST_CONFIRMED) << extra)
        return None

    def _find(self, key: int) -> int:
        """Return the entry of a context; -1 if there is none."""
        first, tag = _place(key)
        for at in range(first, first + WAYS):
            if self._tags[at] == tag:
                return at
        return -1

    def _count(self, key: int, token: int) -> None:
        at = self._find(key)
        if at < 0:
            self._insert(key, token)
            return
        self._uses[at] = min(MOST_COUNTED, self._uses[at] + 1)
        if self._tokens[at] == token:
            self._right[at] += 1
        else:
            self._wrong[at] += 1
        if self._wrong[at] > self._right[at]:
            self._tokens[at], self._right[at], self._wrong[at] = token, 1, 1
        if MOST_COUNTED in (self._right[at], self._wrong[at]):
            self._right[at] >>= 1
            self._wrong[at] >>= 1

    def _insert(self, key: int, token: int) -> None:
        """Replace the entry of its bucket that was the least useful; the others age."""
        first, tag = _place(key)
        ways = range(first, first + WAYS)
        place = min(ways, key=self._uses.__getitem__)
        if self._tags[place]:
            for at in ways:
                self._uses[at] = max(0, self._uses[at] - 1)
        self._tags[place], self._tokens[place] = tag, token
        self._right[place], self._wrong[place], self._uses[place] = 1, 0, 1


def _keys(last: Sequence[int]) -> list[int]:
    """Return 64-bit hashes of the last 2, the last 3 and the last 4 tokens, as far as there are."""
    keys, key = [], 0
    for length, token in enumerate(reversed(last), 1):
        key = ((key ^ token) + length) * _MULTIPLIER & _MASK
        key ^= key >> 29
        if length >= SHORTEST:
            keys.append(key)
    return keys


def _place(key: int) -> tuple[int, int]:
    """Return the first entry of the bucket of a context, and its tag."""
    return (key >> 40) % _BUCKETS * WAYS, (key & 0xFFFFFFFF) or 1
