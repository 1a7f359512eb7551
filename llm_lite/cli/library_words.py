"""The words behind `llm-lite models`: a row an action, its module imported when it is used."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from llm_lite.core.records import dataclass

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
        *("run", "pause", "resume", "cancel", "retry", "remove", "clear", "undo"),
        *("delete-now", "keep-source"),
    )
    parser.add_argument(
        "do",
        nargs="?",
        choices=words,
        metavar="|".join(words),
        help="without a word, the jobs are listed; run carries out what waits, remove takes a row "
        "away, clear those of what is done or has failed, undo a deletion that waits, delete-now "
        "carries it out, keep-source has a job not delete its source",
    )
    parser.add_argument("job", nargs="*", metavar="ID", help="of a job, or how no other id begins")


def _search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", help="parts of names; nothing at all: the curated list")
    add = parser.add_argument
    add("--task", default="text-generation", help='the hub\'s word, "" for any (%(default)s)')
    add("--licence", default="", metavar="NAME", help="as the hub writes it: apache-2.0, mit")
    add("--size", default="", metavar="SIZE", help="of the smallest file, at most: 800MB, 4GB")
    add("--any", action="store_true", help="also what this program cannot run")
    add("--limit", type=int, default=20, metavar="N", help="results (%(default)s)")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME on the hub")


def _pull(parser: argparse.ArgumentParser) -> None:
    text = "OWNER/NAME on the hub; FILE: a path, a format such as Q4_K_M, or a part of a name"
    parser.add_argument("source", metavar="REPO[:FILE]", help=text)
    parser.add_argument("--revision", default="", help="a branch, tag or commit (main)")
    text = "make a variant of it in this weight mode, calibrated where it is int4"
    parser.add_argument("--quantize", metavar="int4|int8|fp16|fp32", help=text)
    parser.add_argument("--no-calibration", action="store_true", help="int4 in seconds, and worse")
    text = "cut this smaller model out of it first, as E2B out of Gemma 3n E4B"
    parser.add_argument("--slice", default="", metavar="NAME", help=text)
    text = "delete what was fetched once the variant or slice was written and read back"
    parser.add_argument("--delete-source", action="store_true", help=text)


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="NAME", help="a local name or path")
    parser.add_argument("--ctx", type=int, default=0, metavar="TOKENS", help="context size")
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="auto")
    parser.add_argument("--device", type=int, metavar="N", help="see `llm-lite doctor`")
    text = "measure how fast memory reads again, which is kept otherwise"
    parser.add_argument("--measure", action="store_true", help=text)


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="NAME", help="a local name or path")
    text = "ask the hub for the hashes, instead of what the cache calls its files"
    parser.add_argument("--online", action="store_true", help=text)


def _import(parser: argparse.ArgumentParser) -> None:
    text = "a GGUF file, a Hugging Face directory or a variant; it stays where it lies"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=text)


def _remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="a name, a part of one, or a path")
    which = parser.add_mutually_exclusive_group()
    text = "not the models, but the variants and slices that were made of them"
    which.add_argument("--variants", action="store_true", help=text)
    text = "the models with the variants and slices that were made of them"
    which.add_argument("--both", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="without asking")


def _gc(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would go, delete nothing")


ACTIONS = {
    "list": Action(f"{_FOLDER}.listing", "the models on this machine", _list),
    "queue": Action(f"{_FOLDER}.queueing", "what is fetched, quantized and deleted", _queue),
    "search": Action(f"{_FOLDER}.searching", "models on the hub, by words", _search),
    "show": Action(f"{_FOLDER}.showing", "a model on the hub, with its files", _show),
    "pull": Action(f"{_FOLDER}.pulling", "fetch a model from the hub", _pull),
    "fit": Action(f"{_FOLDER}.fitting", "what a model takes in every mode, and what fits", _fit),
    "verify": Action(f"{_FOLDER}.verifying", "whether a model's files are what they were", _verify),
    "import": Action(f"{_FOLDER}.importing", "use a model where it lies", _import),
    "remove": Action(f"{_FOLDER}.removing", "delete models, after asking", _remove),
    "gc": Action(f"{_FOLDER}.collecting", "delete what is left over of downloads", _gc),
}


def add_actions(models: argparse.ArgumentParser) -> None:
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        parser = actions.add_parser(name, help=action.help, description=action.help)
        action.add_words(parser)
        parser.add_argument("--json", action="store_true", help="as JSON, for other programs")
