"""The tokenizer of a directory that has SentencePiece's BPE as tokenizer.model and no
tokenizer.json, as those of Llama 2 and InternLM2. Tokens that were added stand in
tokenizer_config.json or added_tokens.json; they may take the places of pieces.

Source: `LlamaTokenizer` of https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_object
from llm_lite.core.text.sentencepiece.model_file import PAIR_MODEL, read_sentencepiece
from llm_lite.core.text.special_tokens import content, token_number
from llm_lite.core.text.tokenizer_files import ADDED, CONFIG, NAMED, PIECE_PAIRS
from llm_lite.core.text.vocabulary import SENTENCE_PIECE, TokenType, Vocabulary, around_text

_ADDED_SCORE = -1000.0  # below all pieces: nothing is merged into it
_USUAL = {"bos_token": "<s>", "eos_token": "</s>"}


def read_scored(folder: Path, rows: int) -> Vocabulary:
    """Read the vocabulary for an embedding of `rows` rows; tokens behind these are left out.
    FileError naming file and field."""
    path = folder / PIECE_PAIRS
    model = read_sentencepiece(path, PAIR_MODEL)
    if model.charsmap or model.joins_spaces:
        raise UnsupportedError(
            f"{path}: changes texts before it cuts them, which is not known here"
        )
    pieces = model.pieces[:rows]
    tokens, scores = [piece for piece, _ in pieces], [score for _, score in pieces]
    unused = range(len(tokens), rows)
    tokens += [f"[unused in row {i}]" for i in unused]
    scores += [_ADDED_SCORE] * len(unused)
    types = bytearray(model.types[:rows]) + bytes([TokenType.UNUSED.value]) * len(unused)
    for file, number, token, kind in _added(folder):
        if number < 0:
            raise FileError(file, f"{token!r:.40} has the id {number}, expected 0 or more")
        if number < rows and types[number] != TokenType.UNKNOWN:
            tokens[number], types[number], scores[number] = token, kind.value, _ADDED_SCORE
    token, count = Counter(tokens).most_common(1)[0]
    if count > 1:
        raise FileError(path, f"has {token!r:.40} twice, with the tokens that were added")
    config = _object(folder / CONFIG)
    fields = {**_object(folder / NAMED), **config}
    names = {name: content(fields.get(name)) or usual for name, usual in _USUAL.items()}
    ids = {name: tokens.index(token) for name, token in names.items() if token in tokens}
    bos, eos = ids.get("bos_token"), ids.get("eos_token")
    begins = _flag(config, "add_bos_token", folder, default=True)
    ends = _flag(config, "add_eos_token", folder, default=False)
    return Vocabulary(
        path=path,
        model=SENTENCE_PIECE,
        pre="default",
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d", scores),
        merges=(),
        bos_id=bos,
        eos_id=eos,
        marked_end_ids=frozenset(),
        unknown_id=model.unknown,
        around=around_text(bos if begins else None, eos if ends else None),
        add_space_prefix=_flag(config, "add_prefix_space", folder, default=model.adds_prefix),
        leads_once=not _flag(config, "legacy", folder, default=True),
    )


def _added(folder: Path) -> Iterator[tuple[Path, int, str, TokenType]]:
    """Yield (file, id, token, type) of what was added, last what tokenizer_config.json says."""
    path = folder / ADDED
    for token, number in _object(path).items():
        if type(number) is not int:
            raise FileError(path, f"{token!r:.40} is {found(number)}, expected an id")
        yield path, number, token, TokenType.USER_DEFINED
    path = folder / CONFIG
    listed = _object(path).get("added_tokens_decoder") or {}
    if not isinstance(listed, dict):
        raise FileError(path, f"added_tokens_decoder is {found(listed)}, expected an object")
    for key, one in listed.items():
        number, text = token_number(key), content(one)
        if number is None or text is None or not isinstance(one, dict):
            problem = f"added_tokens_decoder has {key!r:.20}: {found(one)}, expected a token's id"
            raise FileError(path, problem)
        special = one.get("special") is True
        yield path, number, text, TokenType.CONTROL if special else TokenType.USER_DEFINED


def _object(path: Path) -> dict[str, Any]:
    return dict(read_object(path, limit=MAX_TOKENIZER_BYTES)) if path.is_file() else {}


def _flag(config: dict[str, Any], key: str, folder: Path, *, default: bool) -> bool:
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise FileError(folder / CONFIG, f"{key} is {found(value)}, expected true or false")
    return default if value is None else value
