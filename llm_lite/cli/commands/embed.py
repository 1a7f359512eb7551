"""`llm-lite embed`: vectors of texts as JSON, or how alike the texts are."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence

from llm_lite.api.encoder import Encoder
from llm_lite.api.loading import opened
from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import show, show_json, tell, warn
from llm_lite.cli.terminal.similarity_table import similarity_table
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.encoding.texts import with_prompt
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_standard_input
from llm_lite.core.loading import loader

_LONGEST_INPUT = 64 << 20  # bytes
_SHOWN_NUMBERS = 6  # of the vector of one text


def run(arguments: argparse.Namespace) -> int:
    texts = _texts(arguments)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    whole = with_prompt(file.model.embedding, texts, arguments.task)
    with opened(file, engine_options(arguments)) as model:
        if isinstance(model, Encoder):
            tell(_left_out(file.tokenizer.encode_texts(whole), model.most_tokens))
            vectors = model.embed(texts, arguments.task)
        else:
            vectors = model.embed(whole)
    if arguments.json:
        rows = [[float(f"{value:.9g}") for value in row] for row in vectors]  # float32's digits
        show_json({"embeddings": rows})
    elif len(texts) == 1:
        numbers = "  ".join(f"{value:.4f}" for value in vectors[0][:_SHOWN_NUMBERS])
        show(f"{vectors.shape[1]} numbers: {numbers}  ...; --json shows all")
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        for line in similarity_table(texts, cosines(vectors), columns):
            show(line)
    return 0


def _left_out(texts: Sequence[Sequence[int]], most: int) -> str:
    """Return a sentence if an encoder does not read all of the texts, given in tokens."""
    longer = [number for number, ids in enumerate(texts, 1) if len(ids) > most]
    if not longer:
        return ""
    first = f"text {longer[0]} has {len(texts[longer[0] - 1]):,} tokens"
    others = f", and {len(longer) - 1:,} more are too long" if longer[1:] else ""
    return f"{first}{others}: the model reads the first {most:,}, the rest is left out"


def _texts(arguments: argparse.Namespace) -> list[str]:
    if arguments.prompt:
        return list(arguments.prompt)
    if sys.stdin.isatty():
        raise RequestError("expected a text: -p TEXT, or lines on standard input")
    texts = [line for line in read_standard_input(_LONGEST_INPUT).splitlines() if line.strip()]
    if not texts:
        raise RequestError("standard input is empty: expected a text a line")
    return texts
