"""Pair encoding of a vocabulary and its merges, through the `tokenizers` library in the sandbox:
of bytes as GPT-2, of characters as Gemma 4, and of characters with a mark behind each word as
GPT-1."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from llm_lite.core.text.byte_characters import BYTE_OF
from llm_lite.core.text.pretokenizers import rule_of
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.vocabulary import (
    BYTE_LEVEL_BPE,
    WORD_END,
    WORD_ENDS,
    Vocabulary,
    ids_of,
)

_SURROGATE = re.compile("[\ud800-\udfff]")


class PairEncoder:
    """Text to ids. `control` are tokens that no text may become."""

    def __init__(self, vocabulary: Vocabulary, control: frozenset[str]) -> None:
        self._vocabulary, self._control = vocabulary, control
        self._of_bytes = vocabulary.model == BYTE_LEVEL_BPE
        self._has_ends = vocabulary.model == WORD_ENDS
        self._library = SandboxedEncoder(vocabulary.path, "load pairs", {}, self._parts)
        single = (token for token in vocabulary.tokens if len(token) == 1 and token not in control)
        self._known_bytes = b"".join(BYTE_OF.get(char, b"") for char in single)

    def load(self) -> None:
        """Load what the first text would wait for otherwise. FileError if it can never encode."""
        self._library.load()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._library.encode_all([self._spelled(text) for text in texts])

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, as `SandboxedEncoder.trace_all` does."""
        return self._library.trace_all([self._spelled(text) for text in texts], stepped=stepped)

    def _parts(self) -> bytes:
        """Return the vocabulary in the form that `core.text.sandbox.tokenizers` loads."""
        # What a user types must not become a control token by merging either.
        vocabulary, rule = self._vocabulary, rule_of(self._vocabulary.pre)
        tokens, ends, unknown = vocabulary.tokens, self._has_ends, vocabulary.unknown_id
        # No text is of bytes that are no UTF-8, as the names of tokens of some files are.
        ids = {
            token: i
            for token, i in ids_of(tokens).items()
            if token and token not in self._control and not _SURROGATE.search(token)
        }
        if ends and unknown is not None:
            ids[tokens[unknown]] = unknown
        pairs = (
            (left, right)
            for left, right in vocabulary.merges
            if left in ids and right in ids and left + right in ids
        )
        parts = {
            "ids": ids,
            "merges": list(chain.from_iterable(pairs)),
            "patterns": rule.patterns,
            "whole_words": rule.whole_words,
            "composed": rule.composed,
            "of_bytes": self._of_bytes,
            "word_end": WORD_END if ends else "",
            "unknown": tokens[unknown] if ends and unknown is not None else None,
        }
        return json.dumps(parts).encode()

    def _spelled(self, text: str) -> str:
        """Return the text with U+FFFD for characters that the vocabulary has no bytes for."""
        if not self._of_bytes or not text.encode().translate(None, self._known_bytes):
            return text
        return "".join(char if self._has_bytes(char) else "\ufffd" for char in text)

    def _has_bytes(self, char: str) -> bool:
        return not char.encode().translate(None, self._known_bytes)
