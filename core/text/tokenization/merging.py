"""Byte-pair encoding of one word, with every merge in its order.

Source: Sennrich, Haddow and Birch, 2016; the order of equal ranks (the leftmost pair first) and
what becomes of characters without a token are those of the `tokenizers` library and, where pairs
are ranked by scores, of SentencePiece's `bpe_model.cc`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import Merge, MergeSteps

Ranked = Callable[[str, str], "tuple[float, str] | None"]  # of a pair: its rank, what it becomes


def merge_steps(symbols: Sequence[str], ranked: Ranked, scored: bool = False) -> MergeSteps:
    """Return all merges of `symbols`: always the pair of the lowest rank, the leftmost of equals.

    O(n log n), but for the list of pieces that are left, whose places move.
    """
    work = _Merging(symbols, ranked)
    ranks = tuple(work.rank(at, at + 1) for at in range(len(symbols) - 1))
    return MergeSteps(tuple(symbols), ranks, tuple(work.run()), scored)


class _Merging:
    """A text being merged: pieces[i] begins with symbol i; "" once it is part of an earlier one."""

    def __init__(self, symbols: Sequence[str], ranked: Ranked) -> None:
        self.pieces, self._ranked = list(symbols), ranked
        self._left = list(range(len(symbols)))  # symbols with which a piece begins
        self._heap: list[tuple[float, int, str]] = []  # rank, first symbol, what is made
        for at in range(len(symbols) - 1):
            self._propose(at, at + 1, append=True)
        heapify(self._heap)

    def rank(self, left: int, right: int) -> float | None:
        found = self._ranked(self.pieces[left], self.pieces[right])
        return None if found is None else found[0]

    def _propose(self, left: int, right: int, append: bool = False) -> float | None:
        found = self._ranked(self.pieces[left], self.pieces[right])
        if found is None:
            return None
        entry = (found[0], left, found[1])
        if append:
            self._heap.append(entry)
        else:
            heappush(self._heap, entry)
        return found[0]

    def run(self) -> list[Merge]:
        merges = []
        while self._heap:
            _, left, made = heappop(self._heap)
            at = bisect_left(self._left, left)
            if not self.pieces[left] or at + 1 == len(self._left):
                continue
            right = self._left[at + 1]
            now = self._ranked(self.pieces[left], self.pieces[right])
            if now is None or now[1] != made:
                continue  # one side has been merged since
            merges.append(self._merge(at, right, now[0], made))
        return merges

    def _merge(self, at: int, right: int, rank: float, made: str) -> Merge:
        left = self._left[at]
        self.pieces[left], self.pieces[right] = made, ""
        del self._left[at + 1]
        before = self._propose(self._left[at - 1], left) if at > 0 else None
        last = at + 1 == len(self._left)
        return Merge(
            at, rank, made, before, None if last else self._propose(left, self._left[at + 1])
        )


class PairModel(Struct, frozen=True):
    """The model "BPE" of a tokenizer.json. `ids` and `ranks` are by token and by pair."""

    ids: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]
    unknown: str | None
    prefix: str  # of symbols that do not begin a word
    suffix: str  # of the symbol that ends it: "</w>"
    byte_fallback: bool
    fuse_unknown: bool
    whole_words: bool

    @classmethod
    def read(cls, model: Mapping[str, Any]) -> PairModel:
        return cls(
            model["vocab"],
            {(left, right): rank for rank, (left, right) in enumerate(model["merges"])},
            model.get("unk_token"),
            model.get("continuing_subword_prefix") or "",
            model.get("end_of_word_suffix") or "",
            bool(model.get("byte_fallback")),
            bool(model.get("fuse_unk")),
            bool(model.get("ignore_merges")),
        )

    def trace(self, word: str) -> tuple[list[tuple[str, int]], MergeSteps]:
        """Return (token, id) of the word's tokens, and how they are made."""
        if self.whole_words and word in self.ids:
            return [(word, self.ids[word])], MergeSteps((word,), (), (), whole=True)
        steps = merge_steps(self.symbols(word), self._ranked)
        pieces = merged(steps)
        return [(piece, self.ids[piece]) for piece in pieces], steps

    def symbols(self, word: str) -> list[str]:
        """Return what merging begins with: characters, bytes for those without a token, else the
        token for unknown ones."""
        symbols: list[str] = []
        waiting = False  # for more unknown characters, which become one symbol
        for at, char in enumerate(word):
            symbol = (self.prefix if at else "") + char
            symbol += self.suffix if at == len(word) - 1 else ""
            if symbol in self.ids:
                symbols += [self.unknown] if waiting and self.unknown else []
                symbols.append(symbol)
                waiting = False
            elif self.byte_fallback and (data := self._bytes(symbol)):
                symbols += data
            elif self.unknown is not None:
                symbols += [self.unknown] if waiting and not self.fuse_unknown else []
                waiting = True
        return [*symbols, self.unknown] if waiting and self.unknown else symbols

    def _bytes(self, symbol: str) -> list[str]:
        names = [f"<0x{byte:02X}>" for byte in symbol.encode()]
        return names if all(name in self.ids for name in names) else []

    def _ranked(self, left: str, right: str) -> tuple[float, str] | None:
        rank = self.ranks.get((left, right))
        return None if rank is None else (rank, left + right.removeprefix(self.prefix))


def merged(steps: MergeSteps, count: int | None = None) -> list[str]:
    """Return the pieces after the first `count` merges, or after all."""
    pieces = list(steps.symbols)
    for merge in steps.merges[:count]:
        pieces[merge.at : merge.at + 2] = [merge.made]
    return pieces
