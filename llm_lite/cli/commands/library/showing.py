"""`llm-lite models show`: what the hub tells of a model."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.library.searching import show_model
from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.hub.remote.choosing import recommended
from llm_lite.core.hub.remote.searching import show as look_up
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    model = look_up(arguments.repo.removeprefix("hf:").partition(":")[0])
    if arguments.json:
        show_json(asdict(model))
        return 0
    show_model(model)
    if model.description:
        show(f"    {model.description}")
    best = recommended(model.files)
    if best is not None and model.runnable:
        show(f"    llm-lite models pull {model.repo}:{best.name}")
    return 0
