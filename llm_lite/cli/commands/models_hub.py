"""`llm-lite models search` and `show`: models on the hub, and without words the curated list."""

from __future__ import annotations

import argparse
import re

from llm_lite.cli.terminal.output import parameters_text, say, show, show_json, size_text
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.remote.choosing import recommended
from llm_lite.core.hub.remote.curated import curated_models
from llm_lite.core.hub.remote.searching import SearchFilters, search
from llm_lite.core.hub.remote.searching import show as look_up
from llm_lite.core.messages.library import CuratedModel, HubModel
from llm_lite.core.plain_text import quote
from llm_lite.core.records import asdict

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def search_models(arguments: argparse.Namespace) -> int:
    words = " ".join(arguments.words)
    asked = arguments.size or arguments.licence or arguments.any
    if not words and not asked:
        _show_curated(curated_models(), arguments.json)
        return 0
    filters = SearchFilters(
        task=arguments.task,
        most_bytes=bytes_of(arguments.size) if arguments.size else 0,
        licence=arguments.licence,
        runnable=not arguments.any,
    )
    models = search(words, filters, arguments.limit)
    if arguments.json:
        show_json([asdict(model) for model in models])
        return 0
    for model in models:
        show_model(model)
    if not models:
        said = f" for {quote(words)}" if words else ""
        here = "" if arguments.any else " that runs here"
        narrowed = " and is of that size or licence" if arguments.size or arguments.licence else ""
        more = "" if arguments.any else "; --any shows what does not run here too"
        say(f"nothing found{said}{here}{narrowed}{more}")
    return 0


def bytes_of(text: str) -> int:
    """Return the bytes of a size such as 4GB. RequestError for any other text."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT]?)B?", text.strip().upper())
    if match is None:
        raise RequestError(f"--size is {quote(text)}, expected a size such as 800MB or 4GB")
    return int(float(match[1]) * _UNITS[match[2]])


def _show_curated(models: tuple[CuratedModel, ...], as_json: bool) -> None:
    if as_json:
        show_json([asdict(model) for model in models])
        return
    for model in models:
        memory = size_text(model.memory)
        show(
            f"{model.title}: {size_text(model.size)}, {memory} in memory, {model.licence}\n"
            f"    {model.reason} ({model.date})\n"
            f"    llm-lite models pull {model.repo}:{model.file}"
        )


def show_hub_model(arguments: argparse.Namespace) -> int:
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


def show_model(model: HubModel) -> None:
    facts = [
        model.architecture,
        parameters_text(model.parameters),
        f"context {model.context:,}" if model.context else "",
        model.licence,
        "gated" if model.gated else "",
        f"{model.downloads:,} downloads",
        model.updated,
    ]
    show(f"{model.repo}\n    {', '.join(filter(None, facts))}")
    if model.problem:
        show(f"    does not run here: {model.problem}")
    for file in model.files:
        form = f"  {file.format}" if file.format else ""
        parts = f"  {len(file.parts)} files" if len(file.parts) > 1 else ""
        problem = f"  ({file.problem})" if file.problem and not model.problem else ""
        show(f"    {size_text(file.size):>8}  {file.name}{form}{parts}{problem}")
