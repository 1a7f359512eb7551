"""SentencePiece's BPE with its merges in order: pairs are ranked by the score of their union."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llm_lite.core.messages.inspecting.tokenizing import MergeSteps
from llm_lite.core.text.tokenization.merging import merge_steps, merged
from llm_lite.core.text.tokenization.word_entry import SPACE, WORD_WITH_SPACES, Token, word_entry

_CUT = re.compile(f"{WORD_WITH_SPACES}|[^{SPACE}]+")


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
