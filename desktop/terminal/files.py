"""What commands read and write: a text as tokens, and a result as a whole file."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from core.errors import FileError, RequestError
from core.loading import ModelFile
from core.messages import ChatMessage
from core.prompt import check_size
from core.text_input import read_text


def read_tokens(arguments: argparse.Namespace, file: ModelFile) -> list[int]:
    """What --tokens, --text or --text-file give; texts that cannot fit are refused unread."""
    tokenizer = file.tokenizer
    if arguments.tokens is not None:
        try:
            return [int(word) for word in arguments.tokens.split(",")]
        except ValueError:
            raise RequestError(
                f"--tokens: expected numbers with commas between, found {arguments.tokens[:60]!r}"
            ) from None
    context = arguments.ctx or file.model.shape.trained_context
    text = arguments.text
    if text is None:
        text = read_text(arguments.text_file, context * tokenizer.longest_token_bytes)
    check_size(tokenizer, (ChatMessage("user", text),), context)
    return list(tokenizer.encode(text, add_special=True))


def expanded(text: str) -> Path:
    """With ~ as the home directory; RequestError where that is unknown."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise RequestError(f"{text}: the home directory is unknown") from None


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
