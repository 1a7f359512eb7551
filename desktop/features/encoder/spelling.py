"""Whether a model's vocabulary can spell a text: a model learns little of what it cannot."""

from __future__ import annotations

from typing import Literal

from llm_lite.core.messages import EncodeText, TextEncoded

Spelling = Literal["words", "parts", "unknown"]
MOST_UNKNOWN = 0.5  # of a text's tokens
MOST_TOKENS = 1.2  # for a character: a vocabulary that has a script takes one at most
LEAST = 4  # characters, from which that is told


def spelling(asked: EncodeText, told: TextEncoded) -> Spelling:
    """ "unknown": most tokens stand for text that the vocabulary lacks. "parts": characters are cut
    into their parts, as an English vocabulary does with Korean ones."""
    tokens = [token for token in told.tokens if token.unknown or not token.special]
    if sum(token.unknown for token in tokens) > MOST_UNKNOWN * len(tokens):
        return "unknown"
    characters = sum(not c.isspace() for c in asked.text + asked.pair)
    many = len(tokens) + told.left_out > MOST_TOKENS * characters
    return "parts" if many and characters >= LEAST else "words"
