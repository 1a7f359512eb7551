"""The words behind `llm-lite models`: a row an action, its module imported when it is used."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_FOLDER = "llm_lite.cli.commands.library"


@dataclass(frozen=True, slots=True)
class Action:
    module: str  # whose `run(arguments) -> exit code` carries it out
    help: str
    add_words: Callable[[argparse.ArgumentParser], Any]  # beside --json, which all have


def _list(parser: argparse.ArgumentParser) -> None:
    text = "also what belongs to a model and is none: projectors of images, adapters"
    parser.add_argument("--all", action="store_true", help=text)


def _queue(parser: argparse.ArgumentParser) -> None:
    words = (
        *("run", "pause", "resume", "cancel", "retry", "remove", "undo"),
        *("delete-now", "keep-source"),
    )
    parser.add_argument(
        "do",
        nargs="?",
        choices=words,
        metavar="|".join(words),
        help="run carries everything out that waits; without a word, the jobs are listed",
    )
    parser.add_argument("job", nargs="*", metavar="ID", help="of a job, or how no other id begins")


ACTIONS = {
    "list": Action(f"{_FOLDER}.listing", "the models on this machine", _list),
    "queue": Action(f"{_FOLDER}.queueing", "what is fetched, quantized and deleted", _queue),
}


def add_actions(models: argparse.ArgumentParser) -> None:
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        parser = actions.add_parser(name, help=action.help, description=action.help)
        action.add_words(parser)
        parser.add_argument("--json", action="store_true", help="as JSON, for other programs")
