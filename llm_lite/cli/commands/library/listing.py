"""`llm-lite models list`: every model on this machine, where it lies, and whether it can be run."""

from __future__ import annotations

import argparse
from typing import Any

from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.hub import catalog
from llm_lite.core.hub.local.listing import local_models
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.records import asdict

PLACES = {
    "bundled": "bundled",
    "llm-lite": "llm-lite",
    "huggingface": "Hugging Face cache",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
    "llama.cpp": "llama.cpp",
    "imported": "imported",
}
_HEAD = ("name", "size", "format", "weights", "context", "licence", "place")
_RIGHT = (1, 3, 4)  # columns of numbers
_WIDEST = 44  # characters of a name; a longer one pushes its line


def run(arguments: argparse.Namespace) -> int:
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


def size_text(nbytes: int) -> str:
    """As people say it: 98 MB, 4.7 GB."""
    if nbytes >= 999_500_000:
        return f"{nbytes / 1e9:.1f} GB"
    return f"{nbytes / 1e6:.0f} MB" if nbytes >= 999_500 else f"{nbytes / 1e3:.0f} kB"


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


def parameters_text(count: int) -> str:
    """As models are called by it: 135M, 4.0B; "" where it is not known."""
    if not count:
        return ""
    if count >= 999.5e6:
        return f"{count / 1e9:.1f}B"
    return f"{count / 1e6:.0f}M" if count >= 999.5e3 else f"{count / 1e3:.0f}k"


def _table(rows: list[tuple[str, ...]]) -> None:
    every = [_HEAD, *rows]
    widths = [min(_WIDEST, max(len(row[column]) for row in every)) for column in range(len(_HEAD))]
    for row in every:
        cells = [
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        show("  ".join(cells).rstrip())
