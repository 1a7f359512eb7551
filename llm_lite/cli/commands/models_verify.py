"""`llm-lite models verify`: what came from a hub against the hub's hashes, all else as
`llm-lite verify`."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands import verify as whole_model
from llm_lite.cli.commands.slicing import Percent
from llm_lite.cli.terminal.output import show, show_json, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.hub import catalog
from llm_lite.core.hub.local.listing import local_models
from llm_lite.core.hub.remote.checking import from_hub, verify
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.plain_text import quote
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    model = _model(arguments.model)
    if model is None or not (from_hub(model) or (arguments.online and model.repo)):
        if arguments.online:
            raise RequestError(
                f"{quote(arguments.model)} did not come from a hub, as far as is known: verify it "
                "without --online"
            )
        return whole_model.run(arguments)
    verdict = verify(model, online=arguments.online, progress=Percent())
    if arguments.json:
        show_json({"model": model.name, "path": str(model.path), **asdict(verdict)})
        return int(bool(verdict.findings))
    for note in verdict.notes:
        warn(note)
    for finding in verdict.findings:
        show(finding)
    if not verdict.findings:
        of = "the hub's" if arguments.online else "those that the cache keeps"
        files = "1 file" if verdict.compared == 1 else f"{verdict.compared} files"
        show(f"{model.path}: all hashes are {of}: {files}, {verdict.nbytes / 1e6:,.1f} MB")
    return int(bool(verdict.findings))


def _model(text: str) -> LocalModel | None:
    """Return the model of this machine at a path; None if there is none."""
    path = catalog.resolve(text).absolute()
    return next((model for model in local_models() if model.path == path), None)
