"""SentencePiece's model files: pieces with their scores, and how text is made plain before.

Format: a protocol buffer, `sentencepiece_model.proto` of google/sentencepiece; of it the fields
that are read here. Wire format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import read_bytes

MAX_BYTES = 64 << 20
_MOST_PIECES = 1 << 20
MOST_FIELDS = 6 * _MOST_PIECES  # of all messages: a piece is one, and has three
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the file
UNIGRAM_MODEL, PAIR_MODEL = 1, 2  # model types; a file that says none is a Unigram
_MODELS = {UNIGRAM_MODEL: "Unigram", PAIR_MODEL: "BPE"}
_UNKNOWN = 2  # type of a piece
_TYPES = range(1, 7)  # of pieces, as GGUF numbers those of tokens


class SentencePieceModel(Struct, frozen=True):
    """A model of SentencePiece; pieces: by id, with log probabilities, of BPE with scores. types:
    of the pieces, as `TokenType`. charsmap: compiled rules of normalisation, as the `tokenizers`
    library takes them; b"": none."""

    pieces: tuple[tuple[str, float], ...]
    unknown: int
    charsmap: bytes
    adds_prefix: bool  # a space before the text
    joins_spaces: bool  # several become one
    types: bytes = b""

    def tokenizer_json(self) -> bytes:
        """Return the tokenizer.json from which the `tokenizers` library makes the same ids."""
        steps: list[dict[str, object]] = []
        if self.charsmap:
            text = base64.b64encode(self.charsmap).decode()
            steps.append({"type": "Precompiled", "precompiled_charsmap": text})
        if self.joins_spaces:
            steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
            several = {"Regex": " {2,}"}
            steps.append({"type": "Replace", "pattern": several, "content": " "})
        scheme = "always" if self.adds_prefix else "never"
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme}
        whole: dict[str, object] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
            "pre_tokenizer": {**metaspace, "split": True},
            "post_processor": None,
            "decoder": {**metaspace, "split": True},
            "model": {
                "type": "Unigram",
                "unk_id": self.unknown,
                "vocab": self.pieces,
                "byte_fallback": False,
            },
        }
        return json.dumps(whole, ensure_ascii=False).encode()


def read_sentencepiece(path: Path, kind: int = UNIGRAM_MODEL) -> SentencePieceModel:
    """Read a SentencePiece file. FileError for a file that is none, UnsupportedError for another
    kind of model."""
    data = read_bytes(path, MAX_BYTES)
    try:
        return _model(path, data, kind)
    except (ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise FileError(path, f"is not a SentencePiece model: {error}") from None


def _model(path: Path, data: bytes, expected: int) -> SentencePieceModel:
    pieces: list[tuple[str, float]] = []
    types = bytearray()
    model_type = UNIGRAM_MODEL
    unknown, charsmap, adds_prefix, joins_spaces = 0, b"", True, True
    left = count(MOST_FIELDS, -1)
    for field, value in _fields(data, left):
        if field == _PIECES and isinstance(value, bytes):
            text, score, kind = _piece(value, left)
            if kind == _UNKNOWN:
                unknown = len(pieces)
            pieces.append((text, score))
            types.append(kind)
        elif field == _TRAINER and isinstance(value, bytes):
            found = dict(_fields(value, left)).get(3, UNIGRAM_MODEL)
            model_type = found if isinstance(found, int) else -1
        elif field == _NORMALIZER and isinstance(value, bytes):
            rules = dict(_fields(value, left))
            given = rules.get(2)
            charsmap = given if isinstance(given, bytes) else b""
            adds_prefix, joins_spaces = rules.get(3, 1) != 0, rules.get(4, 1) != 0
        if len(pieces) > _MOST_PIECES:
            raise ValueError(f"it has more than {_MOST_PIECES} pieces")
    if not pieces:
        raise ValueError("it has no pieces")
    if model_type != expected:
        shown = _MODELS.get(model_type, str(model_type))
        problem = f"is of SentencePiece's kind {shown}, expected {_MODELS[expected]}"
        raise UnsupportedError(f"{path}: {problem}")
    return SentencePieceModel(
        tuple(pieces), unknown, charsmap, adds_prefix, joins_spaces, bytes(types)
    )


def _piece(data: bytes, left: Iterator[int]) -> tuple[str, float, int]:
    fields = dict(_fields(data, left))
    text, score, kind = fields.get(1, b""), fields.get(2, 0.0), fields.get(3, 1)
    if not isinstance(text, bytes) or not isinstance(score, float) or not isinstance(kind, int):
        raise ValueError("a piece is not a text with a score")
    if kind not in _TYPES:
        raise ValueError(f"a piece is of type {kind}")
    return text.decode(), score, kind


def _fields(data: bytes, left: Iterator[int]) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield (number, value) of each field of a message. `left` counts down how many may come."""
    at = 0
    while at < len(data):
        if next(left) <= 0:
            raise ValueError(f"it has more than {MOST_FIELDS} fields")
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError(f"field {number} ends behind the file")
            yield number, data[at : at + size]
            at += size
        elif wire == 5:
            yield number, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire == 1:
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            raise ValueError(f"field {number} is of wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:  # nearly all are one byte
        return byte, at + 1
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number has more than ten bytes")
