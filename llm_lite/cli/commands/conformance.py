"""`llm-lite conformance`: checks an executor that an installed package adds, as its author does."""

from __future__ import annotations

import argparse

from llm_lite.cli.terminal.output import note, show, show_json
from llm_lite.core.exec.conformance import Conformance, conformance
from llm_lite.core.loading.accelerators import accelerator
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    found = conformance(
        accelerator(arguments.name),
        (lambda title: None) if arguments.json or not arguments.verbose else note,
    )
    if arguments.json:
        show_json(asdict(found))
    else:
        _print(arguments.name, found)
    return 1 if found.failures or not found.cases else 0


def _print(name: str, found: Conformance) -> None:
    for failure in found.failures:
        show(one_line(f"{failure.case}: {failure.problem}"))
    if not found.cases:
        show(f"{name} takes none of the ops that are tried")
        return
    taken = ", ".join(f"{op} ({count})" for op, count in sorted(found.cases.items()))
    show(f"Cases by op: {taken}")
    failed = len(found.failures)
    show(f"{name} agrees with the definition" if not failed else f"{failed} cases failed")
