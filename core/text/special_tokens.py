"""Ids of special tokens from the files beside a checkpoint, without its tokenizer being loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes, read_object
from llm_lite.core.text.tokenizer_files import CONFIG, NAMED, TOKENIZER_FILE, WORDS

# isdigit() is true of "²", which int() refuses, and of thousands of digits, which it refuses too.
_TOKEN_ID = re.compile(r"[0-9]{1,9}")
NAMES = ("bos_token", "eos_token", "unk_token", "cls_token", "sep_token", "mask_token", "pad_token")


def separator_of(folder: Path) -> int | None:
    """Return the id of the token between two sentences; None if no file has it."""
    values = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    name = content(values.get("sep_token")) or "[SEP]"
    for number, one in _objects(values.get("added_tokens_decoder")):
        if content(one) == name and (found := token_number(number)) is not None:
            return found
    return _in_tokenizer(folder, name)


def named_tokens(folder: Path) -> dict[str, str]:
    """Return the special tokens that the files name, as pad_token and image_token: their texts."""
    found: dict[str, str] = {}
    for file in (folder / NAMED, folder / CONFIG):
        values = read_object(file) if file.is_file() else {}
        extra = values.get("extra_special_tokens")
        for name, value in (*_objects(extra), *values.items()):
            if name.endswith("_token") and (text := content(value)) is not None:
                found[name] = text
    return found


def token_number(key: str) -> int | None:
    """Return the id of a token that is the key of an object; None if it is none."""
    return int(key) if _TOKEN_ID.fullmatch(key) else None


def content(value: object) -> str | None:
    """Return a token, which files write as a text or as an object of its properties."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _in_tokenizer(folder: Path, name: str) -> int | None:
    if (folder / TOKENIZER_FILE).is_file():
        added = read_object(folder / TOKENIZER_FILE, limit=MAX_TOKENIZER_BYTES).get("added_tokens")
        for one in added if isinstance(added, list) else ():
            if content(one) == name and type(one.get("id")) is int:
                return int(one["id"])
    if (folder / WORDS).is_file():
        words = read_bytes(folder / WORDS, MAX_TOKENIZER_BYTES).splitlines()
        return words.index(name.encode()) if name.encode() in words else None
    return None


def _objects(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
