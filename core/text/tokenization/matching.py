"""WordPiece: at each place of a word the longest token that fits.

Source: Song et al., 2021, "Fast WordPiece Tokenization", section 2 (MaxMatch), as BERT does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import LongestMatch, LongestMatches

Found = list[tuple[str, int]]


class WordPieceModel(Struct, frozen=True):
    """The model "WordPiece" of a tokenizer.json."""

    ids: Mapping[str, int]
    unknown: str
    prefix: str
    longest_word: int  # characters

    @classmethod
    def read(cls, model: Mapping[str, Any]) -> WordPieceModel:
        return cls(
            model["vocab"],
            model["unk_token"],
            model["continuing_subword_prefix"],
            model["max_input_chars_per_word"],
        )

    def trace(self, word: str) -> tuple[Found, LongestMatches]:
        """Return (token, id) of the word's tokens, and the matches; a word with a place that
        nothing fits is one unknown token."""
        unknown = [(self.unknown, self.ids[self.unknown])] if self.unknown in self.ids else []
        if len(word) > self.longest_word:
            return unknown, LongestMatches((), self.prefix, True, len(word))
        matches, pieces, start = list[LongestMatch](), Found(), 0
        while start < len(word):
            end = self._longest(word, start)
            matches.append(LongestMatch(start, end))
            if end is None:
                break
            token = candidate(word, start, end, self.prefix)
            pieces.append((token, self.ids[token]))
            start = end
        found = LongestMatches(tuple(matches), self.prefix, False, len(word))
        return unknown if matches and matches[-1].end is None else pieces, found

    def _longest(self, word: str, start: int) -> int | None:
        ends = range(len(word), start, -1)
        fitting = (end for end in ends if candidate(word, start, end, self.prefix) in self.ids)
        return next(fitting, None)


def candidate(word: str, start: int, end: int, prefix: str) -> str:
    """Return characters start..end-1 as the vocabulary would spell them there."""
    return (prefix if start else "") + word[start:end]


class WordLevelModel(Struct, frozen=True):
    """The model "WordLevel" of a tokenizer.json: a word is a token, or unknown."""

    ids: Mapping[str, int]
    unknown: str

    @classmethod
    def read(cls, model: Mapping[str, Any]) -> WordLevelModel:
        return cls(model["vocab"], model["unk_token"])

    def trace(self, word: str) -> tuple[Found, None]:
        token = word if word in self.ids else self.unknown
        return ([(token, self.ids[token])] if token in self.ids else []), None
