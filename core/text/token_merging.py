"""Byte-pair encoding of one word, with every merge in its order.

Source: Sennrich, Haddow and Birch, 2016; the order of equal ranks (the leftmost pair first) and
what becomes of characters without a token are those of the `tokenizers` library and, where pairs
are ranked by scores, of SentencePiece's `bpe_model.cc`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import Merge, MergeSteps, Steps
from llm_lite.core.records import asdict

SPACE = "▁"  # stands for a space inside tokens
WORD_WITH_SPACES = "▁+[^▁]*"  # a word and the spaces before it
Span = tuple[int, int]  # characters of the text
Ranked = Callable[[str, str], "tuple[float, str] | None"]  # of a pair: its rank, what it becomes
_CUT = re.compile(f"{WORD_WITH_SPACES}|[^{SPACE}]+")


class Token(Struct, frozen=True):
    text: str
    id: int
    span: Span


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


def word_entry(
    spelled: str,
    span: Span,
    tokens: Sequence[Token],
    steps: Steps | None = None,
    marked: bool = False,
) -> dict[str, Any]:
    """Return a word's description. Its tokens cover all of the word, also spaces before them, which
    the library leaves out."""
    pieces, last = [], span[0]
    for number, token in enumerate(tokens):
        start, end = token.span
        start = min(start, last)  # of a character that several share, each has all
        end = max(end, span[1]) if number == len(tokens) - 1 else end
        pieces.append((token.text, token.id, start, max(start, end)))
        last = max(last, end)
    word: dict[str, Any] = {"spelled": spelled, "span": span, "pieces": pieces, "marked": marked}
    if steps is not None:
        word |= {"kind": type(steps).__name__, "steps": asdict(steps)}
    return word


def ends_at_spaces(tokens: Iterable[str]) -> bool:
    """Return True if no token reaches from a word over the "▁" that begins the next."""
    return not any(SPACE in token.lstrip(SPACE) for token in tokens)


def steps_of(spelled: str, ids: Mapping[str, int], scores: Sequence[float]) -> MergeSteps:
    """Return the merges of a text with "▁" for spaces; `scores` are by id."""

    def ranked(left: str, right: str) -> tuple[float, str] | None:
        number = ids.get(left + right)
        return None if number is None else (-scores[number], left + right)

    return merge_steps(list(spelled), ranked, scored=True)


def trace_scored(
    text: str,
    ids: Mapping[str, int],
    scores: Sequence[float],
    byte_ids: Mapping[int, int],
    unknown: tuple[str, int] | None,
    own_words: bool,
    stepped: int,
) -> dict[str, Any]:
    """Return the stages of a text as `TracedLibrary.trace` does; the arguments are those of
    `PieceEncoder`."""
    spelled, words, count = text.replace(" ", SPACE), [], 0
    spans = [match.span() for match in _CUT.finditer(spelled)] if own_words else [(0, len(spelled))]
    for start, end in spans if spelled else ():
        steps, tokens, at = steps_of(spelled[start:end], ids, scores), list[Token](), start
        for piece in merged(steps):
            span = (at, at + len(piece))
            found = _tokens_of(piece, ids, byte_ids, unknown)
            tokens += [Token(name, number, span) for name, number in found]
            at = span[1]
        count += len(tokens)
        shown = steps if start < stepped else None
        words.append(word_entry(spelled[start:end], (start, end), tokens, shown))
    return {"normalized": spelled, "words": words, "tokens": count}


def _tokens_of(
    piece: str,
    ids: Mapping[str, int],
    byte_ids: Mapping[int, int],
    unknown: tuple[str, int] | None,
) -> list[tuple[str, int]]:
    """Return a token, else one for each byte, else the unknown one."""
    if piece in ids:
        return [(piece, ids[piece])]
    data = piece.encode()
    if all(byte in byte_ids for byte in data):
        return [(f"<0x{byte:02X}>", byte_ids[byte]) for byte in data]
    return [] if unknown is None else [unknown]
