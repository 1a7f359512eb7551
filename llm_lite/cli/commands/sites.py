"""`llm-lite sites`: the places of a model that can be read, with their shapes and other names."""

from __future__ import annotations

import argparse

from llm_lite.api.loading import opened
from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import show, show_json, warn
from llm_lite.core.loading import loader
from llm_lite.core.questions.sites import Site
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    with opened(file, engine_options(arguments)) as model:
        sites = model.sites()
    if arguments.json:
        show_json([_fields(site) for site in sites])
        return 0
    widest = max(len(site.name) for site in sites)
    for site in sites:
        show(f"{site.name:{widest}}  {site.columns:6}  {'  '.join(site.aliases)}".rstrip())
    return 0


def _fields(site: Site) -> dict[str, object]:
    return {name: value for name, value in asdict(site).items() if name != "prefix"}
