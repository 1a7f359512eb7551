"""tokenizer.json: the vocabulary it holds, and an encoder that runs it as the library does.

Format: https://huggingface.co/docs/tokenizers. Which tokens control the model is decided here, and
text never becomes one of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from llm_lite_kernels import _cpp

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import (
    MAX_TOKENIZER_BYTES,
    found,
    parse_object,
    read_bytes,
    read_object,
)
from llm_lite.core.text.any_of import any_of
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.vocabulary import BYTE_LEVEL_BPE, SENTENCE_PIECE, TokenType, Vocabulary

TOKENIZER_FILE = "tokenizer.json"
_MAX_IDS = 1 << 22
_NOT_PLAIN = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
_TURN = re.compile(r"<[|｜].*[|｜]>|<(start|end)_of_turn>")  # control, whatever the file says of it


class Encoder(Protocol):
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]: ...


class LibraryEncoder:
    """Ids of texts that hold no control token, through the `tokenizers` library."""

    def __init__(self, library: SandboxedEncoder, control: frozenset[int]) -> None:
        self._library, self._control = library, control

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            ids if self._control.isdisjoint(ids) else self._by_characters(text)
            for text, ids in zip(texts, self._library.encode_all(texts), strict=True)
        ]

    def _by_characters(self, text: str) -> list[int]:
        """A model that takes whole words as they are has made a control token of what was typed."""
        pieces = self._library.encode_all(list(text))
        return [i for piece in pieces for i in piece if i not in self._control]


class PairsEncoder:
    """The same of SentencePiece's pairs, by our own kernel, which reads half a million of them in a
    third of the library's time. `added` matches the added tokens that are text, longest first."""

    def __init__(
        self,
        pairs: _cpp.PairEncoder,
        added: re.Pattern[str] | None,
        ids: Mapping[str, int],
        control: frozenset[int],
    ) -> None:
        self._pairs, self._added, self._ids, self._control = pairs, added, ids, control

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        position = 0
        for match in self._added.finditer(text) if self._added else ():
            ids += self._pairs.encode(text[position : match.start()])
            ids.append(self._ids[match[0]])
            position = match.end()
        ids += self._pairs.encode(text[position:])
        if self._control.isdisjoint(ids):
            return ids
        pieces = (self._pairs.encode(char) for char in text)
        return [i for piece in pieces for i in piece if i not in self._control]


def read_tokenizer(folder: Path, rows: int) -> tuple[Vocabulary, Encoder]:
    """Ids up to `rows`, as many as the embedding has; those without a token stand for nothing.

    Reads tokenizer.json and, where they are there, tokenizer_config.json and the end tokens in
    generation_config.json and config.json. Raises FileError, UnsupportedError.
    """
    path = folder / TOKENIZER_FILE
    raw = read_bytes(path, MAX_TOKENIZER_BYTES)
    pairs, raw_of_library = _pairs(path, raw)
    library = SandboxedEncoder(
        path, "load tokenizer", {"most_tokens": 2 * rows + 1024}, raw_of_library
    )
    about = library.about()
    named = _tokens(about["vocabulary"], pairs)
    if not named or len(named) > min(rows, _MAX_IDS):
        raise FileError(path, f"has ids up to {len(named) - 1}, but the embedding {rows} rows")
    named += [None] * (rows - len(named))
    normal, unused = TokenType.NORMAL.value, TokenType.UNUSED.value
    tokens = [f"[unused{i}]" if token is None else token for i, token in enumerate(named)]
    types = [unused if token is None else normal for token in named]
    model = _decoding(path, about["decoder"])

    def find(token: str) -> int | None:
        number: int | None = about["vocabulary"].get(token)
        return pairs.token_to_id(token) if number is None and pairs is not None else number

    if about["byte_fallback"]:
        _mark_bytes(find, types)
    control = _mark_added(about["added"], types, model)
    special = _special_names(folder)
    begin, end = _additions(about["around"])
    bos = find(special.get("bos_token", ""))
    bos = begin if bos is None else bos
    unknown = find(special.get("unk_token", ""))
    if unknown is not None:
        types[unknown] = TokenType.UNKNOWN.value
        control.add(unknown)
    vocabulary = Vocabulary(
        path=path,
        model=model,
        pre=hashlib.sha256(raw).hexdigest(),
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=bos,
        eos_id=find(special.get("eos_token", "")),
        marked_end_ids=_end_ids(folder, rows),
        unknown_id=unknown,
        add_bos=begin is not None and begin == bos,
        add_eos=end is not None,
        add_space_prefix=False,  # the library puts it there
    )
    if pairs is None:
        return vocabulary, LibraryEncoder(library, frozenset(control))
    added = {text: number for number, text, is_special in about["added"] if not is_special}
    return vocabulary, PairsEncoder(pairs, any_of(added), added, frozenset(control))


def _pairs(path: Path, raw: bytes) -> tuple[_cpp.PairEncoder | None, bytes]:
    """Our encoder where it does what the file says, and what the library is still to read of it:
    the added tokens, and what it puts around a text."""
    try:
        pairs = _cpp.PairEncoder(raw)
        rest = parse_object(pairs.rest, path, "the file")
    except (ValueError, FileError):  # the library says what is wrong, or can do it
        return None, raw
    added = rest.get("added_tokens")
    if not isinstance(added, list) or not all(isinstance(item, dict) for item in added):
        return None, raw
    if not _is_plain(rest):
        return None, raw
    known = [(item.get("content"), item.get("id")) for item in added]
    rest["model"]["vocab"] = {token: number for token, number in known if isinstance(token, str)}
    return pairs, json.dumps(rest).encode()


def _is_plain(rest: Mapping[str, Any]) -> bool:
    """Whether ids are those of ranked pairs with spaces as "▁", bytes for what is unknown, and
    added tokens where they stand."""
    model, split = rest["model"], rest.get("pre_tokenizer")
    space = {"String": " "}
    splits = {"type": "Split", "pattern": space, "behavior": "MergedWithPrevious", "invert": False}
    return (
        model.get("type") == "BPE"
        and model.get("byte_fallback") is True
        and not any(model.get(key) for key in _NOT_PLAIN)
        and rest.get("normalizer") == {"type": "Replace", "pattern": space, "content": "▁"}
        and split in (None, splits)  # nothing is left of spaces to split at
        and not any(
            token.get(key)
            for token in rest.get("added_tokens", ())
            for key in ("single_word", "lstrip", "rstrip", "normalized")
        )
    )


def _decoding(path: Path, decoder: str) -> str:
    """How tokens stand for bytes: GPT-2's characters, or text with "▁" for spaces."""
    if '"ByteLevel"' in decoder:
        return BYTE_LEVEL_BPE
    if "▁" in decoder or "\\u2581" in decoder:
        return SENTENCE_PIECE
    raise UnsupportedError(f"{path}: the tokenizer decodes otherwise than is known here")


def _tokens(ids: Mapping[str, int], pairs: _cpp.PairEncoder | None) -> list[str | None]:
    """By id; None where there is no token."""
    named: list[str | None] = [] if pairs is None else pairs.tokens()
    most = min(max(ids.values(), default=-1), _MAX_IDS)
    named += [None] * (most + 1 - len(named))
    for token, token_id in ids.items():
        if token_id <= most:
            named[token_id] = token
    return named


def _mark_bytes(find: Callable[[str], int | None], types: list[int]) -> None:
    for byte in range(256):
        token_id = find(f"<0x{byte:02X}>")
        if token_id is not None:
            types[token_id] = TokenType.BYTE.value


def _mark_added(added: Sequence[tuple[int, str, bool]], types: list[int], model: str) -> set[int]:
    """Sets the types of added tokens; returns the ids of those that control the model."""
    control = set()
    for token_id, text, is_special in added:
        if is_special:
            types[token_id] = TokenType.CONTROL.value
            control.add(token_id)
        elif model == BYTE_LEVEL_BPE or _TURN.fullmatch(text):
            types[token_id] = TokenType.USER_DEFINED.value
        # Other added tokens of SentencePiece ("▁▁", "\n\n", "</s>" as HTML has it) are text.
    return control


def _additions(around: Sequence[int]) -> tuple[int | None, int | None]:
    """The begin and the end token that the library would put around a text."""
    return (around[0] if around else None), (around[-1] if len(around) > 1 else None)


def _special_names(folder: Path) -> dict[str, str]:
    """bos_token, eos_token, unk_token as tokenizer_config.json or special_tokens_map.json say."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if not (folder / file).exists():
            continue
        values = read_object(folder / file)
        for key in ("bos_token", "eos_token", "unk_token"):
            value = values.get(key)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                names[key] = value
            elif value is not None:
                raise FileError(folder / file, f"{key} is {found(value)}, expected a string")
    return names


def _end_ids(folder: Path, rows: int) -> frozenset[int]:
    for file in ("generation_config.json", "config.json"):
        values: Mapping[str, Any] = read_object(folder / file) if (folder / file).exists() else {}
        value = values.get("eos_token_id")
        if value is None:
            continue
        ends = value if isinstance(value, list) else [value]
        if not all(type(end) is int and 0 <= end < rows for end in ends):
            shown = json.dumps(value)[:60]
            raise FileError(folder / file, f"eos_token_id is {shown}, expected ids below {rows}")
        return frozenset(ends)
    return frozenset()
