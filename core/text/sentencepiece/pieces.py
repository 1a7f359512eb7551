"""SentencePiece's BPE: merge the pair whose union scores highest, the leftmost of equals.

Our own because the `tokenizers` library ranks pairs, not unions, and so gives other ids where
tokens have equal scores; it would also need all pairs of the vocabulary searched while loading.
Source: Kudo and Richardson, 2018, and `bpe_model.cc` of google/sentencepiece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

from llm_lite.core.text.token_merging import SPACE, ends_at_spaces, trace_scored

__all__ = ["SPACE", "PieceEncoder"]


class PieceEncoder:
    """Text to ids, O(n log n).

    ids: token -> id of all tokens that text may become. scores: by id.
    byte_ids: byte -> id of its <0xNN> token, for characters without a token; may be empty.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        scores: Sequence[float],
        byte_ids: Mapping[int, int],
        unknown_id: int | None,
    ) -> None:
        self._ids, self._scores, self._byte_ids = ids, scores, byte_ids
        self._unknown_id = unknown_id

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, in the form of the sandbox's for other tokenizers."""
        own, unknown = self._own_words, self._unknown_id
        about = {"kind": "BPE", "normalizers": ["Replace"], "of_bytes": False, "own_words": own}
        named = None if unknown is None else ("<unk>", unknown)
        given = (self._ids, self._scores, self._byte_ids, named, own, stepped)
        return {**about, "traced": [trace_scored(text, *given) for text in texts]}

    @cached_property
    def _own_words(self) -> bool:
        return ends_at_spaces(self._ids)

    def _encode(self, text: str) -> list[int]:
        pieces = _merge(text.replace(" ", SPACE), self._ids, self._scores)
        return [token_id for piece in pieces for token_id in self._piece_ids(piece)]

    def _piece_ids(self, piece: str) -> Sequence[int]:
        if piece in self._ids:
            return (self._ids[piece],)
        data = piece.encode()
        if all(byte in self._byte_ids for byte in data):
            return [self._byte_ids[byte] for byte in data]
        return () if self._unknown_id is None else (self._unknown_id,)


def _merge(text: str, ids: Mapping[str, int], scores: Sequence[float]) -> Iterator[str]:
    pieces = list(text)  # pieces[i] starts at character i; "" once merged into an earlier one
    after = list(range(1, len(text) + 1))
    before = list(range(-1, len(text) - 1))
    heap: list[tuple[float, int, int]] = []  # (-score, start, characters)

    def propose(left: int, right: int) -> None:
        union = pieces[left] + pieces[right]
        token_id = ids.get(union)
        if token_id is not None:
            heappush(heap, (-scores[token_id], left, len(union)))

    for right in range(1, len(text)):
        propose(right - 1, right)
    while heap:
        _, left, length = heappop(heap)
        right = after[left]
        if right == len(text) or len(pieces[left]) + len(pieces[right]) != length:
            continue  # one side has been merged since
        if not pieces[left] or not pieces[right]:
            continue
        pieces[left] += pieces[right]
        pieces[right] = ""
        after[left] = after[right]
        if after[left] < len(text):
            before[after[left]] = left
            propose(left, after[left])
        if before[left] >= 0:
            propose(before[left], left)
    return (piece for piece in pieces if piece)
