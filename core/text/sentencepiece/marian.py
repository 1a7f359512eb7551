"""The tokenizer of Marian's checkpoints: two SentencePiece models, one for each language, and a
vocabulary that both share.

A source is cut by source.spm, and vocab.json says the ids of its pieces. Texts of models with
several target languages begin with the mark of one, such as ">>fra<<".
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_object
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.tokenizer_files import PAIRS, SOURCE_PIECES
from llm_lite.core.text.vocabulary import SENTENCE_PIECE, TokenType, Vocabulary, around_text

_LANGUAGE = re.compile(r">>[^<>]{1,40}<<")
_END, _UNKNOWN, _PADDING = "</s>", "<unk>", "<pad>"


def is_marian(folder: Path) -> bool:
    return (folder / SOURCE_PIECES).is_file() and (folder / PAIRS).is_file()


class SourcePieces:
    """Ids of the vocabulary for texts of the source language. For any thread."""

    def __init__(self, path: Path, ids: Mapping[str, int]) -> None:
        """Load the source's pieces. ids: of vocab.json. FileError for a file that is no model."""
        self._ids, self._unknown = ids, ids[_UNKNOWN]
        count = len(read_sentencepiece(path).pieces)
        self._library = SandboxedEncoder(
            path,
            "load tokenizer",
            {"most_tokens": count, "most_ids": 0},
            lambda: read_sentencepiece(path).tokenizer_json(),
        )
        self._library.load()

    @property
    def digest(self) -> str:
        return self._library.digest

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        marks = [self._mark(text) for text in texts]
        rest = [text[len(mark) :] for text, mark in zip(texts, marks, strict=True)]
        found = self._library.pieces_of_all(rest)
        return [
            [self._ids.get(piece, self._unknown) for piece in ([mark] if mark else []) + pieces]
            for mark, pieces in zip(marks, found, strict=True)
        ]

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text as `SandboxedEncoder.trace_all` does, with this
        vocabulary's ids; a mark is only text."""
        answer = self._library.trace_all(texts, stepped=stepped)
        for trace in answer["traced"]:
            for word in trace["words"]:
                word["pieces"] = [
                    (piece, self._ids.get(piece, self._unknown), *span)
                    for piece, _, *span in word["pieces"]
                ]
        return answer

    def _mark(self, text: str) -> str:
        """Return the mark of the target language; "" if the text begins with none that is known."""
        found = _LANGUAGE.match(text)
        return found[0] if found and found[0] in self._ids else ""


def read_marian(folder: Path, rows: int) -> tuple[Vocabulary, SourcePieces]:
    """Read the vocabulary for an embedding of `rows` rows. FileError naming the file."""
    path = folder / PAIRS
    ids = _ids(path, rows)
    source = folder / SOURCE_PIECES
    pieces = SourcePieces(source, ids)
    tokens = [f"[unused{i}]" for i in range(rows)]
    types = [TokenType.UNUSED.value] * rows
    control = {_END, _PADDING}
    for token, number in ids.items():
        tokens[number] = token
        types[number] = TokenType.CONTROL.value if token in control else TokenType.NORMAL.value
        if token == _UNKNOWN:
            types[number] = TokenType.UNKNOWN.value
    vocabulary = Vocabulary(
        path=path,
        model=SENTENCE_PIECE,
        pre=pieces.digest,
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=None,
        eos_id=ids[_END],
        marked_end_ids=frozenset(),
        unknown_id=ids[_UNKNOWN],
        around=around_text(None, ids[_END]),
        add_space_prefix=False,  # the library puts it there
    )
    return vocabulary, pieces


def _ids(path: Path, rows: int) -> dict[str, int]:
    every = read_object(path, limit=MAX_TOKENIZER_BYTES)
    for token, number in every.items():
        if type(number) is not int or number < 0:
            raise FileError(path, f"{token[:40]!r} is {found(number)}, expected an id")
    ids = {token: number for token, number in every.items() if number < rows}
    for token in (_END, _UNKNOWN):
        if token not in ids:
            raise FileError(path, f"has no {token}")
    return ids
