"""The parts that commands share: a text read as tokens, and a report's fields on the executor."""

from __future__ import annotations

import argparse
from pathlib import Path

from llm_lite.core.checked import convert_in_file
from llm_lite.core.errors import RequestError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.text_input import read_text
from llm_lite.core.generation.prompt import check_size
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import ChatMessage, ExecutorInfo
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions

LONGEST_FILE = 256 << 20  # bytes of interventions, or of another parameter of a question


def read_tokens(arguments: argparse.Namespace, file: ModelFile) -> list[int]:
    """Return the tokens of --tokens, --text or --text-file; texts that cannot fit are refused
    unread."""
    tokenizer = file.tokenizer
    if arguments.tokens is not None:
        return read_ids("--tokens", arguments.tokens)
    context = arguments.ctx or file.model.shape.trained_context
    text = arguments.text
    if text is None:
        text = read_text(arguments.text_file, context * tokenizer.longest_token_bytes)
    check_size(tokenizer, (ChatMessage("user", text),), context)
    return list(tokenizer.encode(text, add_special=True))


def read_ids(option: str, text: str) -> list[int]:
    """Return token ids. RequestError, which names the option, if they are no numbers."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        problem = f"{option}: expected numbers with commas between, found {text[:60]!r}"
        raise RequestError(problem) from None


def read_interventions(path: Path | None) -> Interventions:
    """Return the interventions of a JSON file, {"changes": [...]}; none without a path. FileError
    where it holds others."""
    if path is None:
        return NO_CHANGES
    return convert_in_file(read_object(path, limit=LONGEST_FILE), Interventions, path)


def executor_fields(info: ExecutorInfo) -> dict[str, str]:
    """Return the fields of a report with `--json` that say what the numbers were computed on, and
    how exactly."""
    return {
        "backend": info.backend,
        "device": info.device,
        "mode": info.mode,
        "activations": info.activations,
        "keys": info.keys,
        "values": info.values,
    }
