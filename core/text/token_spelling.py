"""How parts of a text are written on the screen: what cannot be seen has a sign, and bytes that are
no character are numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import LongestMatch, LongestMatches
from llm_lite.core.text.byte_characters import BYTE_OF, named_byte

Found = list[tuple[str, int]]
LONGEST = 48  # characters of a token that are drawn
SPACE = "␣"
_SIGNS = {" ": SPACE, "▁": SPACE, "\n": "⏎", "\r": "␍", "\t": "→"}


class WordPieceModel(Struct, frozen=True):
    """The model "WordPiece" of a tokenizer.json: at each place of a word its longest token.

    Source: Song et al., 2021, "Fast WordPiece Tokenization", section 2 (MaxMatch), as BERT does it.
    """

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


@lru_cache(maxsize=16384)
def shown(text: str, most: int = LONGEST) -> str:
    """Return text on one line, with signs for what has no form of its own."""
    cut = unicodedata.normalize("NFC", text[: most + 1])  # letters of Hangul become syllables
    signs = "".join(_sign(char) for char in cut)
    if signs and unicodedata.combining(signs[0]):
        signs = f"◌{signs}"
    return signs if len(cut) <= most else f"{signs[: most - 1]}…"


def _sign(char: str) -> str:
    found = _SIGNS.get(char)
    if found is not None:
        return found
    if "\u1100" <= char <= "\u11ff":
        return _letter(char)
    joins = char in "\u200d\ufe0f"  # of an emoji: they say nothing alone
    return char if char.isprintable() and not joins else f"U+{ord(char):04X}"


def _letter(jamo: str) -> str:
    """Return a part of a Hangul syllable as the letter that stands alone, which fonts have."""
    name = unicodedata.name(jamo, "").rpartition(" ")[2]
    try:
        return unicodedata.lookup(f"HANGUL LETTER {name}")
    except KeyError:
        return f"U+{ord(jamo):04X}"


@lru_cache(maxsize=16384)
def symbol_shown(symbol: str, of_bytes: bool) -> str:
    """Return a symbol or token of a vocabulary as the text that it stands for."""
    return data_shown(symbol_bytes(symbol, of_bytes))


def symbol_bytes(symbol: str, of_bytes: bool) -> bytes:
    """Return the bytes that a symbol stands for."""
    byte = named_byte(symbol)
    if byte is not None and not of_bytes:
        return bytes([byte])
    if of_bytes:
        return b"".join(BYTE_OF.get(char) or char.encode("utf-8", "replace") for char in symbol)
    return symbol.encode("utf-8", "replace")


def data_shown(data: bytes) -> str:
    """Return bytes as text if they are valid, else in hexadecimal."""
    try:
        return shown(data.decode())
    except UnicodeDecodeError:
        return hexadecimal(data)


def hexadecimal(data: bytes, most: int = 12) -> str:
    """Return bytes such as "ED 95 9C", cut with an ellipsis."""
    words = data[:most].hex(" ").upper()
    return words if len(data) <= most else f"{words} …"


def code_points(text: str, most: int = 6) -> str:
    """Return code points such as "U+D55C U+AD6D"."""
    words = " ".join(f"U+{ord(char):04X}" for char in text[:most])
    return words if len(text) <= most else f"{words} …"


def candidate(word: str, start: int, end: int, prefix: str) -> str:
    """Return characters start..end-1 as the vocabulary would spell them there."""
    return (prefix if start else "") + word[start:end]
