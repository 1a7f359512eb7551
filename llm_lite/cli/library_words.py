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


def _no_words(parser: argparse.ArgumentParser) -> None:
    pass


ACTIONS = {
    "list": Action(f"{_FOLDER}.listing", "the models on this machine", _no_words),
}


def add_actions(models: argparse.ArgumentParser) -> None:
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        parser = actions.add_parser(name, help=action.help, description=action.help)
        action.add_words(parser)
        parser.add_argument("--json", action="store_true", help="as JSON, for other programs")
