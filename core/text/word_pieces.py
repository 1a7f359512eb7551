"""WordPiece (Schuster and Nakajima 2012; as BERT has it, Devlin et al. 2019) through the
`tokenizers` library in the sandbox, from a vocabulary alone: vocab.txt, or a GGUF file's.

A word becomes its longest pieces from the left; those behind the first begin with "##". A word
that has none becomes the unknown token. GGUF files spell pieces otherwise: "▁" before the first,
nothing before the later ones.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.records import replace
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.special_tokens import content
from llm_lite.core.text.tokenizer_files import CONFIG, WORDS, lines_of
from llm_lite.core.text.vocabulary import (
    WORD_PIECE,
    Normalization,
    TokenType,
    Vocabulary,
    VocabularyReader,
    around_text,
    ids_of,
)

LATER = "##"  # before a piece that does not begin its word
_SPACE = "▁"
# By what tokenizer_config.json calls them, and their usual names.
_SPECIAL = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}


_GGUF_KEYS = {  # behind "tokenizer.ggml."; the first is of files of today
    "cls_token": ("cls", "bos"),
    "sep_token": ("seperator", "eos"),
    "unk_token": ("unknown",),
    "pad_token": ("padding",),
    "mask_token": ("mask",),
}


class WordPieceEncoder:
    """Text to ids. `control` are tokens that no text may become, but for the unknown one."""

    def __init__(self, vocabulary: Vocabulary, control: frozenset[str]) -> None:
        self._vocabulary, self._control = vocabulary, control
        self._library = SandboxedEncoder(vocabulary.path, "load word pieces", {}, self._parts)

    def load(self) -> None:
        """Load what the first text would wait for otherwise. FileError if it can never encode."""
        self._library.load()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._library.encode_all(texts)

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, as `SandboxedEncoder.trace_all` does."""
        return self._library.trace_all(texts, stepped=stepped)

    def _parts(self) -> bytes:
        """Return the vocabulary in the form that `core.text.sandbox.tokenizers` loads."""
        vocabulary = self._vocabulary
        unknown, how = vocabulary.unknown_id, vocabulary.normalization or Normalization(True)
        if unknown is None:
            raise FileError(vocabulary.path, "expected a token for unknown words, found none")
        kept = {
            token: i
            for token, i in ids_of(vocabulary.tokens).items()
            if i == unknown or token not in self._control
        }
        parts = {
            "ids": kept,
            "unknown": vocabulary.tokens[unknown],
            "lowercase": how.lowercase,
            "strip_accents": how.strip_accents,
            "split_chinese": how.split_chinese,
        }
        return json.dumps(parts).encode()


def spelled(token: str) -> str:
    """Return the text of a piece, with the space before its word."""
    return token[len(LATER) :] if token.startswith(LATER) else " " + token


def from_gguf(token: str) -> str:
    """Return a piece of a GGUF file as vocab.txt spells it."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[1:] if token.startswith(_SPACE) else LATER + token


def is_lowercase(tokens: Sequence[str]) -> bool:
    """Return True if a vocabulary was made of text in lower case: no word of it has a capital."""
    words = (token for token in tokens if not token.startswith("["))
    return all(token == token.lower() for token in words)


def read_gguf(metadata: Mapping[str, object], path: Path) -> Vocabulary:
    """Read the keys `tokenizer.ggml.*` of a GGUF file whose tokenizer.ggml.model is "bert".
    FileError naming the key."""
    reader = VocabularyReader(metadata, path)
    tokens = tuple(map(from_gguf, reader.tokens()))
    ids: dict[str, int] = {}
    for name, keys in _GGUF_KEYS.items():
        found = [reader.token_id(f"{key}_token_id", tokens) for key in keys]
        usual = tokens.index(_SPECIAL[name]) if _SPECIAL[name] in tokens else None
        one = next((i for i in (*found, usual) if i is not None), None)
        if one is not None:
            ids[name] = one
        elif name not in ("pad_token", "mask_token"):
            raise reader.fail(f"{keys[0]}_token_id", "is missing, expected a token id")
    lower = reader.flag("normalizer.lowercase", is_lowercase(tokens))
    strip = reader.flag("normalizer.strip_accents", lower)
    how = Normalization(lower, strip_accents=strip)
    return replace(word_pieces(path, tokens, ids, how), notes=tuple(reader.notes))


def read_words(folder: Path, rows: int) -> Vocabulary:
    """Read the vocabulary of a directory that has a vocab.txt, a token a line, and no
    tokenizer.json, for an embedding of `rows` rows; tokens behind these are left out. FileError
    naming file and field."""
    path = folder / WORDS
    lines = lines_of(path)[:rows]
    if not any(lines):
        raise FileError(path, "has no tokens")
    tokens = (*lines, *(f"[unused in row {i}]" for i in range(len(lines), rows)))
    values = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    names = {key: content(values.get(key)) or usual for key, usual in _SPECIAL.items()}
    ids = {key: lines.index(name) for key, name in names.items() if name in lines}
    for key in ("cls_token", "sep_token", "unk_token"):
        if key not in ids:
            raise FileError(path, f"has no token {names[key]!r}, the {key}")
    lower, split, strip = (
        _flag(folder, values.get(key), key)
        for key in ("do_lower_case", "tokenize_chinese_chars", "strip_accents")
    )
    how = Normalization(is_lowercase(lines) if lower is None else lower, split is not False, strip)
    return word_pieces(path, tokens, ids, how, unused=range(len(lines), rows))


def word_pieces(
    path: Path,
    tokens: tuple[str, ...],
    ids: dict[str, int],
    how: Normalization,
    *,
    unused: range = range(0),
) -> Vocabulary:
    """Return a vocabulary of pieces as vocab.txt spells them, `ids` by the names of
    tokenizer_config.json; texts are [CLS] A [SEP], pairs [CLS] A [SEP] B [SEP]."""
    types = bytearray((TokenType.NORMAL.value,)) * len(tokens)
    for i in unused:
        types[i] = TokenType.UNUSED.value
    for key, i in ids.items():
        unknown = key == "unk_token"
        types[i] = TokenType.UNKNOWN.value if unknown else TokenType.CONTROL.value
    begin, end = ids["cls_token"], ids["sep_token"]
    return Vocabulary(
        path=path,
        model=WORD_PIECE,
        pre=WORD_PIECE,
        tokens=tokens,
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=begin,
        eos_id=end,
        marked_end_ids=frozenset(),
        unknown_id=ids["unk_token"],
        around=around_text(begin, end),
        add_space_prefix=True,
        mask_id=ids.get("mask_token"),
        around_pair=((begin,), (end,), (end,)),
        normalization=how,
    )


def _flag(folder: Path, value: object, key: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise FileError(folder / CONFIG, f"{key} is {found(value)}, expected true or false")
    return value
