"""`llm-lite ask`: the answer to a question about a text, by its name in the table of questions
(core/questions/table.py)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.api.loading import opened
from llm_lite.api.translator import Translator
from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.inputs import LONGEST_FILE, read_tokens
from llm_lite.cli.terminal.output import note, show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.files.writing import check_place, replaced
from llm_lite.core.loading import loader
from llm_lite.core.questions import wire
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.table import named


def run(arguments: argparse.Namespace) -> int:
    """Print the answer as JSON, or write its arrays to --out."""
    question = named(arguments.question)
    given = dict(_parameter(question, one) for one in arguments.parameters)
    wire.request_of(question, given, _any_tokens, _any_tokens)  # refused before the model is read
    if arguments.out is not None:
        check_place(arguments.out)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    with opened(file, engine_options(arguments)) as model:
        tell(model.note)
        ids, target = read_tokens(arguments, file), arguments.target
        if target is None:
            answer = model.ask(ids, question.name, **given)
        elif isinstance(model, Translator):
            answer = model.ask(ids, question.name, target=target, **given)
        else:
            raise RequestError(f"--target: {model.info.name} is no encoder-decoder, which has one")
    if arguments.out is None:
        show_json(wire.plain(answer))
    else:
        arrays: dict[str, Any] = wire.arrays_of(answer)
        with replaced(arguments.out) as out:
            np.savez(out, **arrays)
        shapes = ", ".join(f"{name} {list(one.shape)}" for name, one in arrays.items())
        note(f"{arguments.out}: {shapes}")
    return 0


def _any_tokens(text: str) -> tuple[int, ...]:
    return (0,)


def _parameter(question: Question, text: str) -> tuple[str, Any]:
    """Return a parameter and its value, of "name=value" or "name=@file"; values that are JSON are
    read as such."""
    name, equals, value = text.partition("=")
    if not equals:
        raise RequestError(f"{text[:80]!r}: expected NAME=VALUE, as {_sample(question)}")
    if value.startswith("@"):
        value = read_text(Path(value[1:]), LONGEST_FILE)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _sample(question: Question) -> str:
    query = wire.query_of(question, question.example) or {"first": "0"}
    return next(f"{name}={value}" for name, value in query.items())
