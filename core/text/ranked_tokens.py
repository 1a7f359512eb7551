"""The tokenizer of the first Qwen: qwen.tiktoken has a token a line, its bytes in base64 and its
rank, which is its id. Pairs of bytes merge by the rank of their union. Behind all ranks stand the
tokens that mark texts and turns, and 205 that have no use yet.

Source: `tokenization_qwen.py` of https://huggingface.co/Qwen/Qwen-7B; the format is tiktoken's
(https://github.com/openai/tiktoken).
"""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes
from llm_lite.core.text.byte_characters import BYTE_OF
from llm_lite.core.text.tokenizer_files import RANKED
from llm_lite.core.text.vocabulary import BYTE_LEVEL_BPE, TokenType, Vocabulary

_END, _MARKS = "<|endoftext|>", ("<|im_start|>", "<|im_end|>")
_EXTRAS = 205
_CHARACTER = {data: character for character, data in BYTE_OF.items()}
_MOST_STEPS = 1 << 26  # of finding pairs; Qwen's tokens take 10 million


def read_ranked(folder: Path, rows: int) -> Vocabulary:
    """Read the vocabulary for an embedding of `rows` rows. FileError naming file and line."""
    path = folder / RANKED
    ranks = _ranks(path)
    names = [_END, *_MARKS, *(f"<|extra_{i}|>" for i in range(_EXTRAS))]
    if len(ranks) >= rows:
        raise FileError(path, f"has {len(ranks)} tokens, expected fewer than {rows} rows")
    names = names[: rows - len(ranks)]  # those behind the embedding's rows are left out
    tokens = [_spelled(token) for token in ranks] + names
    unused = [f"[unused in row {i}]" for i in range(len(tokens), rows)]
    types = [TokenType.NORMAL.value] * len(ranks) + [TokenType.CONTROL.value] * len(names)
    return Vocabulary(
        path=path,
        model=BYTE_LEVEL_BPE,
        pre="qwen2",
        tokens=(*tokens, *unused),
        types=bytes(types + [TokenType.UNUSED.value] * len(unused)),
        scores=array("d"),
        merges=_merges(path, ranks),
        bos_id=None,
        eos_id=len(ranks),
        marked_end_ids=frozenset(),
        unknown_id=None,
        around=((), ()),
        add_space_prefix=False,
    )


def _spelled(token: bytes) -> str:
    """Return the bytes as printable characters, as GPT-2's vocabulary has them."""
    return "".join(_CHARACTER[token[i : i + 1]] for i in range(len(token)))


def _ranks(path: Path) -> dict[bytes, int]:
    """Return ranks by token, in their order: 0, 1 and so on."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_bytes(path, MAX_TOKENIZER_BYTES).splitlines(), 1):
        if not line:
            continue
        encoded, _, rank = line.partition(b" ")
        try:
            token = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            token = b""
        if not token or rank != str(len(ranks)).encode() or token in ranks:
            expected = f"expected a new token in base64 and its rank, {len(ranks)}"
            raise FileError(path, f"line {number}: {expected}, found {line!r:.60}")
        ranks[token] = len(ranks)
    if not ranks:
        raise FileError(path, "has no tokens")
    return ranks


def _merges(path: Path, ranks: Mapping[bytes, int]) -> tuple[tuple[str, str], ...]:
    """Return the pair that each token of several bytes is merged of last."""
    steps = sum(len(token) ** 2 for token in ranks)
    if steps > _MOST_STEPS:
        raise FileError(path, f"has tokens that are too long: {steps:,} steps to find their pairs")
    found = []
    for token, rank in ranks.items():
        if len(token) > 1:
            pair = _parts(token, ranks, rank)
            if len(pair) != 2 or not all(part in ranks for part in pair):
                raise FileError(
                    path, f"token {rank}: no pair of earlier tokens makes {token!r:.60}"
                )
            found.append((_spelled(pair[0]), _spelled(pair[1])))
    return tuple(found)


def _parts(token: bytes, ranks: Mapping[bytes, int], below: int) -> list[bytes]:
    """Merge the token's bytes by the ranks before its own."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        pairs = (ranks.get(a + b, below) for a, b in pairwise(parts))
        rank, at = min((rank, at) for at, rank in enumerate(pairs))
        if rank >= below:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
