"""The vocabulary of a directory that has vocab.json and merges.txt and no tokenizer.json: pairs of
bytes as GPT-2 and RoBERTa were published, or of characters as GPT-1 was, whose words end in "</w>".

Format: https://github.com/openai/gpt-2 (`encoder.py`): vocab.json maps tokens to ids, merges.txt
has a pair a line, in the order of priority, behind a line that may name a version.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_object
from llm_lite.core.text.special_tokens import content
from llm_lite.core.text.tokenizer_files import CONFIG, MERGES, NAMED, PAIRS, lines_of
from llm_lite.core.text.vocabulary import (
    BYTE_LEVEL_BPE,
    WORD_END,
    WORD_ENDS,
    TokenType,
    Vocabulary,
    around_text,
    pair_of_roberta,
)

_GPT2 = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
_GPT1 = {"unk_token": "<unk>"}
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
    """Read the vocabulary for an embedding of `rows` rows; tokens behind these are left out. Texts
    of RoBERTa are <s> A </s>, its pairs <s> A </s></s> B </s>; GPT has nothing around them.
    FileError naming file and field."""
    every = _tokens(folder / PAIRS)
    known = {token: i for token, i in every.items() if i < rows}
    ends = any(token.endswith(WORD_END) for token in known)  # GPT-1's
    ids = _special_ids(folder, known, _GPT1 if ends else _GPT2)
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
    merges = _merges(folder / MERGES, every)
    return Vocabulary(
        path=folder / PAIRS,
        model=WORD_ENDS if ends else BYTE_LEVEL_BPE,
        pre="roberta-bpe" if encodes else "gpt-2",
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=tuple(p for p in merges if known.keys() >= {*p, "".join(p)}),
        bos_id=bos,
        eos_id=eos,
        marked_end_ids=frozenset(),
        unknown_id=ids.get("unk_token"),
        around=around_text(bos, eos) if encodes else ((), ()),
        add_space_prefix=False,
        stripping_before=frozenset({ids["mask_token"]} if encodes else ()),
        mask_id=ids.get("mask_token"),
        around_pair=pair_of_roberta(bos, eos) if encodes else (),
    )


def _tokens(path: Path) -> dict[str, int]:
    """Return ids by token, each once."""
    ids = read_object(path, limit=MAX_TOKENIZER_BYTES)
    for token, i in ids.items():
        if type(i) is not int or i < 0:
            raise FileError(path, f"{token!r:.40} has the id {found(i)}, expected 0 or more")
    if len(set(ids.values())) != len(ids):
        raise FileError(path, "gives one id to several tokens")
    if not ids:
        raise FileError(path, "has no tokens")
    return ids


def _special_ids(
    folder: Path, known: Mapping[str, int], of_gpt: Mapping[str, str]
) -> dict[str, int]:
    """Return ids of special tokens by name: those in the files beside it, else those of GPT or
    RoBERTa."""
    fields: dict[str, object] = {}
    for name in (NAMED, CONFIG):
        if (folder / name).is_file():
            fields |= read_object(folder / name)
    usual = _ROBERTA if "<mask>" in known else of_gpt
    names = {name: content(fields.get(name)) or usual.get(name, "") for name in _ROBERTA}
    return {name: known[token] for name, token in names.items() if token in known}


def _merges(path: Path, known: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    found = []
    for number, line in enumerate(lines_of(path), 1):
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
