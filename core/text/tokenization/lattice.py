"""A Unigram model's lattice: every token that fits each place of a word, and the likeliest path.

Source: Kudo, 2018, "Subword Regularization"; sums, ties (the path that was found first) and the
penalty of unknown characters are those of the `tokenizers` library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from llm_lite.core.messages.inspecting.tokenizing import Edge, Lattice
from llm_lite.core.records import dataclass

_UNKNOWN_PENALTY = 10.0  # below the lowest score of the vocabulary


@dataclass(frozen=True, slots=True)
class UnigramModel:
    """The model "Unigram" of a tokenizer.json."""

    tokens: Mapping[str, tuple[int, float]]  # id and score
    longest: int  # characters of a token
    lowest: float
    unknown: int | None
    byte_fallback: bool

    @classmethod
    def read(cls, model: Mapping[str, Any]) -> UnigramModel:
        rows: Sequence[tuple[str, float]] = model["vocab"]
        return cls(
            {token: (number, float(score)) for number, (token, score) in enumerate(rows)},
            max((len(token) for token, _ in rows), default=0),
            min((float(score) for _, score in rows), default=0.0),
            model.get("unk_id"),
            bool(model.get("byte_fallback")),
        )

    def trace(self, word: str) -> tuple[list[tuple[str, int]], Lattice]:
        """(token, id) of the word's tokens, and the lattice that they are the best path through."""
        found = self.lattice(word)
        return self._pieces(word, found), found

    def lattice(self, word: str) -> Lattice:
        edges: list[Edge] = []
        totals: list[float | None] = [0.0] + [None] * len(word)
        arriving: list[int | None] = [None] * (
            len(word) + 1
        )  # the edge by which it is reached best
        for start in range(len(word)):
            so_far = totals[start] or 0.0
            for edge in self._edges(word, start):
                total, known = edge.score + so_far, totals[edge.end]
                if known is None or total > known:
                    totals[edge.end], arriving[edge.end] = total, len(edges)
                edges.append(edge)
        path, end = list[int](), len(word)
        while end > 0:
            number = arriving[end]
            assert number is not None  # every character has an edge of its own
            path.append(number)
            end = edges[number].start
        return Lattice(tuple(edges), tuple(reversed(path)), tuple(totals))

    def _edges(self, word: str, start: int) -> list[Edge]:
        edges = []
        for end in range(start + 1, min(len(word), start + self.longest) + 1):
            found = self.tokens.get(word[start:end])
            if found is not None:
                edges.append(Edge(start, end, word[start:end], *found))
        if not edges or edges[0].end > start + 1:
            score = self.lowest - _UNKNOWN_PENALTY
            edges.append(Edge(start, start + 1, word[start], None, score))
        return edges

    def _pieces(self, word: str, found: Lattice) -> list[tuple[str, int]]:
        """Unknown characters that follow each other are one token, or their bytes."""
        path = [found.edges[number] for number in found.best]
        pieces: list[tuple[str, int]] = []
        for known, run in groupby(path, lambda edge: edge.id not in (None, self.unknown)):
            edges = list(run)
            if known:
                pieces += [(edge.token, edge.id) for edge in edges if edge.id is not None]
            else:
                pieces += self._unknown(word[edges[0].start : edges[-1].end])
        return pieces

    def _unknown(self, text: str) -> list[tuple[str, int]]:
        if text in self.tokens:
            return [(text, self.tokens[text][0])]
        names = [f"<0x{byte:02X}>" for byte in text.encode()]
        if self.byte_fallback and all(name in self.tokens for name in names):
            return [(name, self.tokens[name][0]) for name in names]
        return [] if self.unknown is None else [(text, self.unknown)]
