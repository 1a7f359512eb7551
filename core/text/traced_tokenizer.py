"""In the sandbox: the stages of a text, by a tokenizer of the `tokenizers` library.

Its own ids are the result. Steps that do not lead to them are not told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from msgspec import Struct
from tokenizers import PreTokenizedString, Regex, Tokenizer

from llm_lite.core.messages.inspecting.tokenizing import Edge, Lattice, Steps
from llm_lite.core.text.additions import around
from llm_lite.core.text.token_merging import (
    SPACE,
    WORD_WITH_SPACES,
    PairModel,
    Span,
    Token,
    word_entry,
)
from llm_lite.core.text.token_spelling import WordLevelModel, WordPieceModel

_UNKNOWN_PENALTY = 10.0  # below the lowest score of the vocabulary


class UnigramModel(Struct, frozen=True):
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
        """Return (token, id) of the word's tokens, and the lattice that they are the best path
        through."""
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
        """Return the pieces; consecutive unknown characters are one token, or their bytes."""
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


_CONTAINERS = ("Sequence",)
Split = tuple[str, Span]  # as the vocabulary spells it, and its characters in the text
Traced = tuple[list[tuple[str, int]], Steps | None]  # (token, id), and how they are found
_MOST_KNOWN = 10_000


class _Model(Protocol):
    def trace(self, word: str) -> Traced: ...


class _Readable(_Model, Protocol):
    @classmethod
    def read(cls, model: Mapping[str, Any]) -> _Model: ...


_MODELS: Mapping[str, type[_Readable]] = {
    "BPE": PairModel,
    "Unigram": UnigramModel,
    "WordPiece": WordPieceModel,
    "WordLevel": WordLevelModel,
}


class TracedLibrary:
    def __init__(self, library: Tokenizer) -> None:
        self._library = library
        parts = json.loads(library.to_str())
        self._model = _MODELS[parts["model"]["type"]].read(parts["model"])
        self._added = frozenset(library.get_added_tokens_decoder())
        self._known: dict[str, Traced] = {}  # words that were traced
        self._own_words = library.pre_tokenizer is None and _ends_at_spaces(self._model)
        normalizers = list(_names(parts.get("normalizer")))
        self.about = {
            "kind": parts["model"]["type"],
            "normalizers": normalizers,
            "of_bytes": "ByteLevel" in [*_names(parts.get("pre_tokenizer")), *normalizers],
            "own_words": self._own_words,
            "around": around(library),
        }

    def trace(self, text: str, stepped: int) -> dict[str, Any]:
        """Return {"normalized", "words", "tokens"}; steps are given for words before character
        `stepped`."""
        encoding = self._library.encode(text, add_special_tokens=False)
        columns = zip(encoding.tokens, encoding.ids, encoding.offsets, strict=True)
        tokens = [Token(*each) for each in columns]
        keyed = zip(encoding.word_ids, tokens, strict=True)
        groups = [[token for _, token in run] for _, run in groupby(keyed, lambda pair: pair[0])]
        marked = [group[0].span for group in groups if self._is_marked(group)]
        normalized, splits = self._splits(text, marked)
        words = list(self._words(groups, splits, stepped))
        return {"normalized": normalized, "words": words, "tokens": len(tokens)}

    def _trace(self, word: str) -> Traced:
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[word] = self._model.trace(word)
        return found

    def _is_marked(self, group: list[Token]) -> bool:
        return len(group) == 1 and group[0].id in self._added

    def _splits(self, text: str, marked: list[Span]) -> tuple[str, list[Split]]:
        """Return the normalized text, and the words of what lies between `marked` tokens."""
        if not text:
            return "", []
        held = PreTokenizedString(text)
        between, last = list[Span](), 0
        for start, end in [*marked, (len(text), len(text))]:
            between += [(last, start)] if start > last else []
            last = end
        held.split(lambda _, whole: [whole[start:end] for start, end in between])
        if self._library.normalizer is not None:
            held.normalize(self._library.normalizer.normalize)
        parts = [(text[a:b], (a, b)) for a, b in marked]
        parts += [(words, span) for words, span, _ in _splits_of(held)]
        normalized = "".join(words for words, _ in sorted(parts, key=lambda part: part[1]))
        if self._library.pre_tokenizer is not None:
            self._library.pre_tokenizer.pre_tokenize(held)
        elif self._own_words:
            held.split(lambda _, whole: whole.split(Regex(WORD_WITH_SPACES), "isolated"))
        return normalized, [(words, span) for words, span, _ in _splits_of(held)]

    def _words(
        self, groups: list[list[Token]], splits: list[Split], stepped: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the words in order. A word may have no token: its characters are none of the
        vocabulary's."""
        waiting = iter(splits)
        for group in groups:
            if self._is_marked(group):
                yield word_entry(group[0].text, group[0].span, group, marked=True)
            else:
                yield from self._words_of(group, waiting, stepped)
        for spelled, span in waiting:
            yield word_entry(spelled, span, [])

    def _words_of(
        self, group: list[Token], splits: Iterator[Split], stepped: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the words of tokens between which the library knows no end of a word."""
        while group:
            found = next(splits, None)
            if found is None:
                break
            spelled, span = found
            pieces, steps = self._trace(spelled)
            own = group[: len(pieces)]
            if [number for _, number in pieces] != [token.id for token in own]:
                break
            yield word_entry(spelled, span, own, steps if span[0] < stepped else None)
            group = group[len(pieces) :]
        if group:  # not cut as we would have it: only the result is shown
            ends = (group[0].span[0], group[-1].span[1])
            yield word_entry("".join(token.text for token in group), ends, group)


def _splits_of(held: PreTokenizedString) -> list[tuple[str, Span, Any]]:
    return held.get_splits(offset_referential="original", offset_type="char")


def _names(part: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the types of a normalizer or pre-tokenizer and of its parts."""
    if part is None:
        return
    if part["type"] not in _CONTAINERS:
        yield part["type"]
    for inner in part.get("normalizers") or part.get("pretokenizers") or ():
        yield from _names(inner)


def _ends_at_spaces(model: _Model) -> bool:
    """Return True if no merge reaches from a word over the "▁" that begins the next: then merging a
    text is merging its words."""
    if not isinstance(model, PairModel) or SPACE not in model.ids or model.whole_words:
        return False
    return not any(SPACE in (left + right).lstrip(SPACE) for left, right in model.ranks)
