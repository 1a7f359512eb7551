"""What commands read and write: a text as tokens, and a result as a whole file."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from core.errors import FileError, RequestError
from core.tokenizer import Tokenizer


def read_tokens(arguments: argparse.Namespace, tokenizer: Tokenizer) -> list[int]:
    if arguments.tokens is not None:
        try:
            return [int(word) for word in arguments.tokens.split(",")]
        except ValueError:
            raise RequestError(
                f"--tokens: expected numbers with commas between, found {arguments.tokens[:60]!r}"
            ) from None
    text = _read(arguments.text_file) if arguments.text is None else arguments.text
    return list(tokenizer.encode(text, add_special=True))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None


def check_place(path: Path) -> None:
    """Say before the work what would fail after it."""
    try:
        if not path.name or path.is_dir():
            raise FileError(path, "is a directory, expected the name of a file to write")
        if not path.parent.is_dir():
            raise FileError(path, f"cannot be written: there is no directory {path.parent}")
    except OSError as error:  # a name too long, a folder that may not be entered
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def save(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Whole or not at all: written beside its place, then renamed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write(file)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def warn(text: str) -> None:
    print(f"llm-lite: {text}", file=sys.stderr)
