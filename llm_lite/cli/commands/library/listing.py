"""`llm-lite models list`: the models known by name."""

from __future__ import annotations

import argparse

from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.hub import catalog


def run(arguments: argparse.Namespace) -> int:
    entries = catalog.entries()
    if arguments.json:
        rows = [
            {
                "name": entry.name,
                "title": entry.title,
                "licence": entry.licence,
                "path": str(entry.path) if entry.path else None,
                "bytes": entry.size,
            }
            for entry in entries
        ]
        show_json(rows)
        return 0
    for entry in entries:
        where = (
            f"{entry.path} ({entry.size / 1e6:.0f} MB)"
            if entry.path and entry.size
            else f"not installed: run `{entry.command}`"
        )
        mark = "  (default)" if entry.name == catalog.DEFAULT else ""
        show(f"{entry.name}{mark}\n    {entry.title}, {entry.licence}\n    {where}")
    return 0
