"""Estimates from pieces how many tokens texts have that are too long to be encoded."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.text.tokenizer import Tokenizer

_PIECES, _PIECE = 16, 2048  # pieces of a long text, and their characters


def utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimated_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return about how many tokens texts have together: pieces that are spread evenly over them
    are encoded, which costs the same however long they are; never fewer than their bytes need."""
    size = sum(map(utf8_bytes, texts))
    pieces = _spread(texts)
    sampled = sum(map(utf8_bytes, pieces))
    tokens = sum(len(tokenizer.encode(piece, parse_special=False)) for piece in pieces)
    return max(size * tokens // max(sampled, 1), -(-size // tokenizer.longest_token_bytes))


def _spread(texts: Sequence[str]) -> list[str]:
    """Return pieces that begin at regular places of the texts, taken for one."""
    step = max(_PIECE, sum(map(len, texts)) // _PIECES)
    pieces, at = list[str](), 0  # in characters from the beginning of the text
    for text in texts:
        while at < len(text):
            pieces.append(text[at : at + _PIECE])
            at += step
        at -= len(text)
    return pieces
