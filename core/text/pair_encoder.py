"""Pair encoding of a GGUF file's vocabulary, through the `tokenizers` library in the sandbox.

GPT-2's kind merges bytes, each spelled as a printable character; Gemma 4's merges characters, with
"▁" for spaces, and spells characters without a token as bytes <0x00> to <0xFF>.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.text.byte_characters import BYTE_OF
from llm_lite.core.text.pretokenizers import rule_of
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.vocabulary import BYTE_LEVEL_BPE, Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")


class PairEncoder:
    """Text to ids. `control` are tokens that no text may become."""

    def __init__(self, vocabulary: Vocabulary, control: frozenset[str]) -> None:
        """FileError for a token that is not valid UTF-8."""
        for i, token in enumerate(vocabulary.tokens):
            if _SURROGATE.search(token):
                raise FileError(vocabulary.path, f"tokenizer.ggml.tokens[{i}] is not valid UTF-8")
        self._vocabulary, self._control = vocabulary, control
        self._of_bytes = vocabulary.model == BYTE_LEVEL_BPE
        self._library = SandboxedEncoder(vocabulary.path, "load pairs", {}, self._parts)
        single = (token for token in vocabulary.tokens if len(token) == 1 and token not in control)
        self._known_bytes = b"".join(BYTE_OF.get(char, b"") for char in single)

    def load(self) -> None:
        """What the first text would wait for else. FileError where it can never encode."""
        self._library.load()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._library.encode_all([self._spelled(text) for text in texts])

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """The stages of each, as `SandboxedEncoder.trace_all` tells them."""
        return self._library.trace_all([self._spelled(text) for text in texts], stepped=stepped)

    def _parts(self) -> bytes:
        """The vocabulary as `core.text.sandbox.tokenizers` loads it."""
        # What a user types must not become a control token by merging either.
        tokens, control, rule = (
            self._vocabulary.tokens,
            self._control,
            rule_of(self._vocabulary.pre),
        )
        merges = self._vocabulary.merges
        pairs = (p for p in merges if control.isdisjoint((*p, "".join(p))))
        parts = {
            "ids": {token: i for i, token in enumerate(tokens) if token not in control},
            "merges": list(chain.from_iterable(pairs)),
            "patterns": rule.patterns,
            "whole_words": rule.whole_words,
            "composed": rule.composed,
            "of_bytes": self._of_bytes,
        }
        return json.dumps(parts).encode()

    def _spelled(self, text: str) -> str:
        """With U+FFFD for characters that the vocabulary has no bytes for."""
        if not self._of_bytes or not text.encode().translate(None, self._known_bytes):
            return text
        return "".join(char if self._has_bytes(char) else "\ufffd" for char in text)

    def _has_bytes(self, char: str) -> bool:
        return not char.encode().translate(None, self._known_bytes)
