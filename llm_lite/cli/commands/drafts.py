"""`llm-lite drafts`: what drafts learned from answers, a line for each model, and the end of it."""

from __future__ import annotations

import argparse

from llm_lite.cli.terminal.output import show, show_json, size_text
from llm_lite.core.generation.speculation.ngram_file import (
    LearnedFile,
    listed,
    remove_all,
)


def run(arguments: argparse.Namespace) -> int:
    found = listed()
    freed = remove_all() if arguments.delete else 0
    if arguments.json:
        show_json({"learned": [_row(one) for one in found], "freed": freed})
        return 0
    for one in found:
        show(f"{size_text(one.size)}  {_described(one)}  {one.path}")
    if not found:
        show("nothing was learned")
    elif arguments.delete:
        show(f"{size_text(freed)} deleted")
    return 0


def _described(one: LearnedFile) -> str:
    if one.model is None:
        return one.problem
    answers = "1 answer" if one.model.answers == 1 else f"{one.model.answers:,} answers"
    return f"{one.model.name}: {answers}, {one.model.tokens:,} tokens"


def _row(one: LearnedFile) -> dict[str, object]:
    known = one.model
    return {
        "path": str(one.path),
        "size": one.size,
        "model": known.name if known else None,
        "answers": known.answers if known else 0,
        "tokens": known.tokens if known else 0,
        "problem": one.problem,
    }
