"""What commands read: a text as tokens; and what they warn of."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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


def warn(text: str) -> None:
    print(f"llm-lite: {text}", file=sys.stderr)
