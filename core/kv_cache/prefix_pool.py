"""Prefixes of recent conversations, kept in host memory within a budget: the least recently used
go first."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.kv_cache.contents import CacheRows, Prefix
from llm_lite.core.kv_cache.provenance import CacheContents, common
from llm_lite.core.messages import PooledPrefix

LEAST = 32  # positions worth keeping


class PrefixPool:
    """Copies of recent caches within a budget of bytes; the least recently used goes first."""

    def __init__(self, budget: int = 0) -> None:
        self._budget = max(0, budget)  # bytes
        self._kept: list[Prefix] = []  # the least recently used first

    @property
    def budget(self) -> int:
        return self._budget

    @budget.setter
    def budget(self, budget: int) -> None:
        self._budget = max(0, budget)
        self._evict()

    @property
    def used(self) -> int:
        """Return the bytes in use."""
        return sum(prefix.nbytes for prefix in self._kept)

    def listed(self) -> tuple[PooledPrefix, ...]:
        """Return the prefixes, the most recently used first."""
        return tuple(
            PooledPrefix(p.name, len(p.contents.tokens), p.nbytes, p.conversation, p.kept)
            for p in reversed(self._kept)
        )

    def covers(self, contents: CacheContents) -> bool:
        """Return True if some prefix begins with all of these contents, and a step could follow
        there."""
        return any(_covers(p, contents) for p in self._kept)

    def put(self, prefix: Prefix) -> None:
        """Keep it, or the first part of it that fits the budget; those it covers go."""
        prefix = _fitting(prefix, self._budget)
        if len(prefix.contents.tokens) < LEAST:
            return
        self._kept = [p for p in self._kept if not _covers(prefix, p.contents)]
        self._kept.append(prefix)
        self._evict()

    def best(self, score: Callable[[Prefix], int]) -> tuple[Prefix | None, int]:
        """Return the prefix with the highest score, and the score; only `touch` counts it as
        used."""
        ranked = [(score(p), p) for p in self._kept]
        points, prefix = max(ranked, key=lambda r: r[0], default=(0, None))
        return (prefix, points) if points > 0 else (None, 0)

    def touch(self, prefix: Prefix) -> None:
        self._kept.remove(prefix)
        self._kept.append(prefix)

    def clear(self) -> None:
        self._kept.clear()

    def _evict(self) -> None:
        while self.used > self._budget:
            self._kept.pop(0)


def _covers(prefix: Prefix, contents: CacheContents) -> bool:
    has_state = not prefix.recurrent or len(contents.tokens) in prefix.states
    return has_state and _begins_with(prefix.contents, contents)


def _begins_with(longer: CacheContents, shorter: CacheContents) -> bool:
    count = len(shorter.tokens)
    return (
        common(longer.tokens, shorter.tokens, count) == count
        and longer.conditions[:count] == shorter.conditions
        and longer.first(count).gaps == shorter.gaps
    )


def _fitting(prefix: Prefix, budget: int) -> Prefix:
    """Return the prefix, or if it is too large its first positions; nothing of rings can be cut,
    nor what ends in a recurrent state."""
    if prefix.nbytes <= budget:
        return prefix
    count = len(prefix.contents.tokens)
    rings = any(rows.first for rows in prefix.rows.values())
    fits = 0 if rings or prefix.recurrent or not count else budget * count // prefix.nbytes
    rows: dict[str, CacheRows] = {
        name: CacheRows(0, r.data[:fits].copy(), r.dtype, r.block)
        for name, r in prefix.rows.items()
    }
    return Prefix(prefix.name, prefix.contents.first(fits), rows, prefix.conversation, prefix.kept)
