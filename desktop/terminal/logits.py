"""`llm-lite logits`: float32 [n_tokens, n_vocab] of a text, on the executor asked for."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core import loading
from core.errors import FileError, RequestError
from core.tokenizer import Tokenizer
from desktop.cli import engine_options


def run(arguments: argparse.Namespace) -> int:
    _check_place(arguments.out)
    file = loading.open_model(arguments.model, lambda *_: None, _warn)
    try:
        tokens = _tokens(arguments, file.tokenizer)
        runner = loading.start(
            file, engine_options(arguments), None, lambda *_: None, every_output=True
        )
        try:
            started = time.perf_counter()
            logits = runner.session.logits(tokens)
            seconds = time.perf_counter() - started
        finally:
            runner.close()
        _save(arguments.out, logits)
        if arguments.json:
            info = runner.executor_info
            print(
                json.dumps(
                    {
                        "tokens": tokens,
                        "shape": list(logits.shape),
                        "out": str(arguments.out),
                        "backend": info.backend,
                        "device": info.device,
                        "mode": info.mode,
                        "activations": info.activations,
                        "kv": info.kv,
                        "seconds": seconds,
                    }
                )
            )
    finally:
        file.close()
    return 0


def _tokens(arguments: argparse.Namespace, tokenizer: Tokenizer) -> list[int]:
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


def _check_place(path: Path) -> None:
    """Say before the work what would fail after it."""
    try:
        if not path.name or path.is_dir():
            raise FileError(path, "is a directory, expected the name of a file to write")
        if not path.parent.is_dir():
            raise FileError(path, f"cannot be written: there is no directory {path.parent}")
    except OSError as error:  # a name too long, a folder that may not be entered
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def _save(path: Path, logits: NDArray[np.float32]) -> None:
    """Whole or not at all: written beside its place, then renamed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            np.save(file, logits)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def _warn(text: str) -> None:
    print(f"llm-lite: {text}", file=sys.stderr)
