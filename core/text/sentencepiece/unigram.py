"""SentencePiece's unigram model (Kudo 2018) of a GGUF file: the likeliest way to cut a text, by the
`tokenizers` library in the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.errors import FileError
from llm_lite.core.records import replace
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.sentencepiece.model_file import MAX_BYTES, SentencePieceModel
from llm_lite.core.text.vocabulary import Vocabulary, VocabularyReader, ids_of

_CHARSMAP = "tokenizer.ggml.precompiled_charsmap"
_JOINS_SPACES = "tokenizer.ggml.remove_extra_whitespaces"


class UnigramEncoder:
    """Text to ids. `control` are tokens that no text may become."""

    def __init__(self, vocabulary: Vocabulary, control: frozenset[str]) -> None:
        """Make the encoder. FileError if the vocabulary has no token for what it lacks."""
        if vocabulary.unknown_id is None:
            raise FileError(vocabulary.path, "expected a token for unknown text, found none")
        self._vocabulary, self._control = vocabulary, control
        count = len(vocabulary.tokens)
        request = {"most_tokens": count, "most_ids": 0}
        self._library = SandboxedEncoder(vocabulary.path, "load tokenizer", request, self._parts)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._library.encode_all(texts)

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, as `SandboxedEncoder.trace_all` does."""
        return self._library.trace_all(texts, stepped=stepped)

    def _parts(self) -> bytes:
        """Return a tokenizer.json in which what no text becomes has names that no text has."""
        vocabulary, unknown = self._vocabulary, self._vocabulary.unknown_id or 0
        pairs = zip(vocabulary.tokens, vocabulary.scores, strict=True)
        ids = ids_of(vocabulary.tokens)
        text = {i for token, i in ids.items() if token and token not in self._control}
        pieces = tuple(
            (token if i in text or i == unknown else f"\0{i}", score)
            for i, (token, score) in enumerate(pairs)
        )
        joins = vocabulary.joins_spaces
        return SentencePieceModel(
            pieces, unknown, vocabulary.charsmap, True, joins
        ).tokenizer_json()


def read_unigram(metadata: Mapping[str, object], path: Path) -> Vocabulary:
    """Read the keys `tokenizer.ggml.*` of a file whose tokenizer.ggml.model is "t5". FileError
    naming the key."""
    vocabulary = VocabularyReader(metadata, path).vocabulary()
    charsmap = metadata.get(_CHARSMAP, b"")
    try:
        data = np.asarray(list(charsmap), np.uint8).tobytes()  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        raise FileError(path, f"{_CHARSMAP}: expected bytes, found something else") from None
    if len(data) > MAX_BYTES:
        raise FileError(path, f"{_CHARSMAP}: expected at most {MAX_BYTES} bytes, found {len(data)}")
    joins = metadata.get(_JOINS_SPACES, True) is not False
    before, behind = vocabulary.around
    begins = metadata.get("general.architecture") == "bert"  # XLM-R; no T5
    return replace(  # the library puts the space before a text
        vocabulary,
        charsmap=data,
        joins_spaces=joins,
        add_space_prefix=False,
        around=(before if begins else (), behind),
    )
