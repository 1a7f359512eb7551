"""The files beside a checkpoint that its tokenizer is read from. Any one of `SETS` makes a
tokenizer; the first that is there is read."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes

TOKENIZER_FILE = "tokenizer.json"
WORDS = "vocab.txt"  # of WordPiece, a token a line
PAIRS, MERGES = "vocab.json", "merges.txt"  # of GPT-2 and RoBERTa
SOURCE_PIECES, TARGET_PIECES = "source.spm", "target.spm"  # of Marian, with vocab.json
PIECES = "spiece.model"  # of T5
PIECE_PAIRS = "tokenizer.model"  # of Llama 2 and InternLM2
RANKED = "qwen.tiktoken"  # of the first Qwen
CONFIG, NAMED = "tokenizer_config.json", "special_tokens_map.json"
ADDED = "added_tokens.json"  # beside tokenizer.model

SETS = (
    (TOKENIZER_FILE,),
    (WORDS,),
    (SOURCE_PIECES, TARGET_PIECES, PAIRS),
    (PAIRS, MERGES),
    (PIECES,),
    (PIECE_PAIRS,),
    (RANKED,),
)
ALL = tuple(dict.fromkeys([*(name for names in SETS for name in names), CONFIG, NAMED, ADDED]))


def makes_tokenizer(names: Container[str]) -> bool:
    """Return True if a tokenizer can be made of files of these names."""
    return any(all(name in names for name in one) for one in SETS)


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file of tokens, in which only a line break ends a line: other
    separators of Unicode may be tokens. FileError if it is not UTF-8."""
    try:
        text = read_bytes(path, MAX_TOKENIZER_BYTES).decode()
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
