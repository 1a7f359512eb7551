"""`llm-lite models remove`: says what would go and what that frees, asks, and deletes it."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.library.listing import PLACES, size_text
from llm_lite.cli.terminal.asking import agreed, can_ask
from llm_lite.cli.terminal.output import say, show, show_json
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.removal import Removal, delete_models, removal


def run(arguments: argparse.Namespace) -> int:
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
    if not can_ask():
        raise RequestError("models are deleted when --yes says so, or on a terminal that can ask")
    what = "this model" if len(plan.models) == 1 else f"these {len(plan.models)} models"
    if all(model.origin == "imported" for model in plan.models):
        return agreed(f"Forget {what}?")
    return agreed(f"Delete {what} and free {size_text(plan.frees)}?")
