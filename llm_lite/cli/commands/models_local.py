"""`llm-lite models list`, `import`, `remove` and `gc`: the models on this machine."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from llm_lite.cli.commands.models import PLACES
from llm_lite.cli.terminal.output import (
    parameters_text,
    prompt,
    say,
    show,
    show_json,
    size_text,
)
from llm_lite.core.errors import RequestError
from llm_lite.core.files.places import expanded
from llm_lite.core.hub import catalog
from llm_lite.core.hub.local.collecting import collect, leftovers
from llm_lite.core.hub.local.importing import import_model
from llm_lite.core.hub.local.listing import local_models
from llm_lite.core.hub.local.removal import Removal, delete_models, removal
from llm_lite.core.hub.queue.queue_file import QueueFile, queue_folder
from llm_lite.core.hub.queue.steps import downloads_to_come
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.records import asdict

_HEAD = ("name", "size", "format", "weights", "context", "licence", "place")
_RIGHT = (1, 3, 4)  # columns of numbers
_WIDEST = 44  # characters of a name; a longer one pushes its line


def list_models(arguments: argparse.Namespace) -> int:
    models = local_models(companions=arguments.all)
    if arguments.json:
        show_json([as_json(model) for model in models])
        return 0
    _table([_row(model) for model in models])
    broken = [model for model in models if model.problem]
    if broken:
        show()
    for model in broken:
        show(f"{model.name}: {model.problem}")
    for entry in catalog.entries():
        if entry.path is None:
            show(f"{entry.name} ({entry.title}) is not installed: run `{entry.command}`")
    return 0


def as_json(model: LocalModel) -> dict[str, Any]:
    files = [str(file) for file in model.files]
    return {**asdict(model), "path": str(model.path), "files": files}


def _row(model: LocalModel) -> tuple[str, ...]:
    return (
        model.name,
        size_text(model.size),
        model.format or "-",
        parameters_text(model.parameters) or "-",
        f"{model.context:,}" if model.context else "-",
        model.licence or "-",
        PLACES[model.origin] + ("  (not usable, see below)" if model.problem else ""),
    )


def _table(rows: list[tuple[str, ...]]) -> None:
    every = [_HEAD, *rows]
    widths = [min(_WIDEST, max(len(row[column]) for row in every)) for column in range(len(_HEAD))]
    for row in every:
        cells = [
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        show("  ".join(cells).rstrip())


def import_models(arguments: argparse.Namespace) -> int:
    models = [import_model(expanded(path)) for path in arguments.paths]
    if arguments.json:
        show_json([as_json(model) for model in models])
        return 0
    for model in models:
        if model.origin == "imported":
            show(f"{model.name}: {size_text(model.size)} in {model.path}, used where it lies")
        else:
            show(f"{model.name}: is found anyway ({PLACES[model.origin]}), in {model.path}")
    return 0


def remove_models(arguments: argparse.Namespace) -> int:
    plan = removal(
        arguments.names,
        variants=arguments.variants or arguments.both,
        sources=not arguments.variants,
    )
    if not arguments.json:
        _tell(plan)
    if not arguments.yes and not _agreed(plan):
        say("nothing was deleted")
        return 1
    freed = delete_models(plan)
    if arguments.json:
        show_json({"removed": [model.name for model in plan.models], "freed": freed})
    else:
        only_forgotten = all(model.origin == "imported" for model in plan.models)
        show("no file was deleted" if only_forgotten else f"{size_text(freed)} freed")
    return 0


def _tell(plan: Removal) -> None:
    for model in plan.models:
        show(f"{model.name}  {size_text(model.size)}  {PLACES[model.origin]}  {model.path}")
    for note in plan.notes:
        show(f"Note: {note}")


def _agreed(plan: Removal) -> bool:
    if not _can_ask():
        raise RequestError("models are deleted when --yes says so, or on a terminal that can ask")
    what = "this model" if len(plan.models) == 1 else f"these {len(plan.models)} models"
    if all(model.origin == "imported" for model in plan.models):
        return _confirmed(f"Forget {what}?")
    return _confirmed(f"Delete {what} and free {size_text(plan.frees)}?")


def _can_ask() -> bool:
    """Return True if a person at a terminal can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(question: str) -> bool:
    """y or yes; whatever else is typed, or the end of the input, is no."""
    prompt(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def delete_leftovers(arguments: argparse.Namespace) -> int:
    file = QueueFile(queue_folder())
    jobs = file.load()
    if file.problem:  # what it still needed is not known any more
        raise RequestError(f"{file.problem} Run gc again to delete all partial downloads.")
    found = leftovers(needed=downloads_to_come(jobs))
    freed = 0 if arguments.dry_run else collect(found)
    if arguments.json:
        rows = [{"kind": one.kind, "path": str(one.path), "size": one.size} for one in found]
        show_json({"found": rows, "freed": freed})
        return 0
    for one in found:
        show(f"{one.kind}  {size_text(one.size)}  {one.path}")
    if not found:
        show("nothing is left over")
    elif arguments.dry_run:
        show(f"{size_text(sum(one.size for one in found))} would be freed")
    else:
        show(f"{size_text(freed)} freed")
    return 0
