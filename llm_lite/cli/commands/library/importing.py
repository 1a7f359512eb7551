"""`llm-lite models import`: a model that lies somewhere else is remembered, not copied."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.library.listing import PLACES, as_json, size_text
from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.files.places import expanded
from llm_lite.core.hub.local.importing import import_model


def run(arguments: argparse.Namespace) -> int:
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
