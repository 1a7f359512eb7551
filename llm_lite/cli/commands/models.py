"""`llm-lite models`: its actions, a row for each."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.cli.parser import DEVICE_HELP, Commands, backend

PLACES = {
    "bundled": "bundled",
    "llm-lite": "llm-lite",
    "huggingface": "Hugging Face cache",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
    "llama.cpp": "llama.cpp",
    "imported": "imported",
}


class Action(Struct, frozen=True):
    module: str  # of this folder, imported when it is used
    function: str  # of the module: (arguments) -> exit code
    help: str
    add_words: Callable[[argparse.ArgumentParser], Any]  # beside --json, which all have


def _list(parser: argparse.ArgumentParser) -> None:
    text = "also files that belong to a model: image projectors, adapters"
    parser.add_argument("--all", action="store_true", help=text)


def _queue(parser: argparse.ArgumentParser) -> None:
    words = (
        *("run", "pause", "resume", "cancel", "retry", "remove", "clear", "undo"),
        *("delete-now", "keep-source"),
    )
    parser.add_argument(
        "do",
        nargs="?",
        choices=words,
        metavar="|".join(words),
        help="without one of these, the jobs are listed. run: carry out waiting jobs. remove: take "
        "a job off the list. clear: take off finished and failed ones. undo: cancel a waiting "
        "deletion. delete-now: carry it out. keep-source: do not delete the source of a job",
    )
    parser.add_argument(
        "job", nargs="*", metavar="ID", help="id of a job, or a beginning that no other id has"
    )


def _search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", help="parts of names; without them, the curated list")
    add = parser.add_argument
    add(
        "--task",
        default="text-generation",
        help='task as the hub calls it, "" for any (%(default)s)',
    )
    add(
        "--licence",
        default="",
        metavar="NAME",
        help="licence as the hub writes it: apache-2.0, mit",
    )
    add(
        "--size",
        default="",
        metavar="SIZE",
        help="largest size of a model's smallest file: 800MB, 4GB",
    )
    add("--any", action="store_true", help="also models that this program cannot run")
    add("--limit", type=int, default=20, metavar="N", help="most results (%(default)s)")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME on the hub")


def _pull(parser: argparse.ArgumentParser) -> None:
    text = "OWNER/NAME on the hub; FILE: a path, a format such as Q4_K_M, or a part of a name"
    parser.add_argument("source", metavar="REPO[:FILE]", help=text)
    parser.add_argument("--revision", default="", help="a branch, tag or commit (main)")
    text = "then make a variant in this weight mode; int4 is calibrated"
    parser.add_argument("--quantize", metavar="int4|int8|fp16|fp32", help=text)
    parser.add_argument(
        "--no-calibration",
        action="store_true",
        help="make int4 without calibration: in seconds, and less exact",
    )
    text = "first cut this smaller model out of it, such as E2B out of Gemma 3n E4B"
    parser.add_argument("--slice", default="", metavar="NAME", help=text)
    text = "delete the download after the variant or slice was written and checked"
    parser.add_argument("--delete-source", action="store_true", help=text)


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="NAME", help="a local name or path")
    parser.add_argument("--ctx", type=int, default=0, metavar="TOKENS", help="context size")
    parser.add_argument("--backend", type=backend, default="auto", metavar="NAME")
    parser.add_argument(
        "--device",
        type=int,
        metavar="N",
        help=DEVICE_HELP,
    )
    text = "measure the memory bandwidth again, instead of using the stored figure"
    parser.add_argument("--measure", action="store_true", help=text)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="NAME", help="a local name or path")
    text = "compare with the hashes on the hub, instead of those in the cache's file names"
    parser.add_argument("--online", action="store_true", help=text)


def _import(parser: argparse.ArgumentParser) -> None:
    text = "a GGUF file, a Hugging Face directory or a variant; it is not copied"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=text)


def _remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="a name, a part of one, or a path")
    which = parser.add_mutually_exclusive_group()
    text = "delete only the variants and slices made of the models"
    which.add_argument("--variants", action="store_true", help=text)
    text = "delete the models and the variants and slices made of them"
    which.add_argument("--both", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _gc(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would be deleted, delete nothing"
    )


ACTIONS = {
    "list": Action("models_local", "list_models", "list the models on this machine", _list),
    "queue": Action(
        "models_queue",
        "show_queue",
        "list and steer downloads, quantizations and deletions",
        _queue,
    ),
    "search": Action("models_hub", "search_models", "search for models on the hub", _search),
    "show": Action(
        "models_hub", "show_hub_model", "show a model on the hub, with its files", _show
    ),
    "pull": Action("models_pull", "run", "download a model from the hub", _pull),
    "fit": Action(
        "models_fit",
        "run",
        "show the memory a model needs in every mode, and what fits",
        _fit,
    ),
    "verify": Action(
        "models_verify",
        "run",
        "check a model's files against their hashes",
        _verify,
    ),
    "import": Action(
        "models_local",
        "import_models",
        "add a model that is already on this machine, without copying it",
        _import,
    ),
    "remove": Action("models_local", "remove_models", "delete models, after a question", _remove),
    "gc": Action("models_local", "delete_leftovers", "delete leftovers of downloads", _gc),
}


def add_actions(models: argparse.ArgumentParser) -> None:
    actions = models.add_subparsers(action=Commands, dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        parser = actions.add_parser(name, help=action.help)
        action.add_words(parser)
        parser.add_argument("--json", action="store_true", help="as JSON, for other programs")


def run(arguments: argparse.Namespace) -> int:
    action = ACTIONS[arguments.action]
    action_function = getattr(
        importlib.import_module(f"{__package__}.{action.module}"), action.function
    )
    return int(action_function(arguments))
