"""The vocabulary of a directory that has vocab.json and merges.txt and no tokenizer.json: pairs of
bytes as GPT-2 and RoBERTa were published.

Format: https://github.com/openai/gpt-2 (`encoder.py`): vocab.json maps tokens to ids, merges.txt
has a pair a line, in the order of priority, behind a line that may name a version.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_bytes, read_object
from llm_lite.core.text.special_tokens import content
from llm_lite.core.text.tokenizer_files import CONFIG, MERGES, NAMED, PAIRS
from llm_lite.core.text.vocabulary import (
    BYTE_LEVEL_BPE,
    TokenType,
    Vocabulary,
    pair_of_roberta,
)

_GPT2 = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
_ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}


def has_pairs(folder: Path) -> bool:
    """Return True if a directory has both files."""
    return (folder / PAIRS).is_file() and (folder / MERGES).is_file()


def read_pairs(folder: Path, rows: int) -> Vocabulary:
    """Read the vocabulary for an embedding of `rows` rows. Texts of RoBERTa are <s> A </s>, its
    pairs <s> A </s></s> B </s>; GPT-2 has nothing around them. FileError naming file and field."""
    known = _tokens(folder / PAIRS, rows)
    ids = _special_ids(folder, known)
    encodes = "mask_token" in ids  # RoBERTa's
    types = bytearray((TokenType.UNUSED.value,)) * rows
    tokens = [f"[unused in row {i}]" for i in range(rows)]
    for token, i in known.items():
        tokens[i], types[i] = token, TokenType.NORMAL.value
    for name, i in ids.items():
        unknown = name == "unk_token"
        types[i] = TokenType.UNKNOWN.value if unknown else TokenType.CONTROL.value
    bos, eos = ids.get("bos_token"), ids.get("eos_token")
    for name in ("bos_token", "eos_token") if encodes else ():
        if name not in ids:
            raise FileError(folder / PAIRS, f"has no token for {name}, but a mask token")
    return Vocabulary(
        path=folder / PAIRS,
        model=BYTE_LEVEL_BPE,
        pre="roberta-bpe" if encodes else "gpt-2",
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=_merges(folder / MERGES, known),
        bos_id=bos,
        eos_id=eos,
        marked_end_ids=frozenset(),
        unknown_id=ids.get("unk_token"),
        add_bos=encodes,
        add_eos=encodes,
        add_space_prefix=False,
        stripping_before=frozenset({ids["mask_token"]} if encodes else ()),
        mask_id=ids.get("mask_token"),
        around_pair=pair_of_roberta(bos, eos) if encodes else (),
    )


def _tokens(path: Path, rows: int) -> dict[str, int]:
    """Return ids by token, each once and within the embedding."""
    ids = read_object(path, limit=MAX_TOKENIZER_BYTES)
    for token, i in ids.items():
        if type(i) is not int or not 0 <= i < rows:
            raise FileError(path, f"{token!r:.40} has the id {found(i)}, expected 0 to {rows - 1}")
    if len(set(ids.values())) != len(ids):
        raise FileError(path, "gives one id to several tokens")
    if not ids:
        raise FileError(path, "has no tokens")
    return ids


def _special_ids(folder: Path, known: Mapping[str, int]) -> dict[str, int]:
    """Return ids of special tokens by name: those in the files beside it, else those of GPT-2 or
    RoBERTa."""
    fields: dict[str, object] = {}
    for name in (NAMED, CONFIG):
        if (folder / name).is_file():
            fields |= read_object(folder / name)
    usual = _ROBERTA if "<mask>" in known else _GPT2
    names = {name: content(fields.get(name)) or usual.get(name, "") for name in _ROBERTA}
    return {name: known[token] for name, token in names.items() if token in known}


def _merges(path: Path, known: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    try:
        lines = read_bytes(path, MAX_TOKENIZER_BYTES).decode().splitlines()
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not all(token in known for token in (left, right, left + right)):
            raise FileError(
                path,
                f"line {number}: expected two tokens whose pair is a token, found {line!r:.60}",
            )
        found.append((left, right))
    return tuple(found)
