"""`llm-lite verify`: whether a model's files are whole, a line for whatever is wrong with them."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.slicing import Percent
from llm_lite.cli.terminal.output import show, show_json, warn
from llm_lite.core.loading.file_check import Verdict, verify_model


def run(arguments: argparse.Namespace) -> int:
    verdict = verify_model(arguments.model, Percent())
    if arguments.json:
        show_json(_report(verdict))
    else:
        _print(verdict)
    return 0 if verdict.sound else 1


def _report(verdict: Verdict) -> dict[str, object]:
    return {
        "model": str(verdict.path),
        "kind": verdict.kind,
        "sound": verdict.sound,
        "findings": verdict.findings,
        "notes": verdict.notes,
        "tensors": verdict.tensors,
        "bytes": verdict.nbytes,
        "checksums": verdict.checksums,
    }


def _print(verdict: Verdict) -> None:
    for note in verdict.notes:
        warn(note)
    for finding in verdict.findings:
        show(finding)
    if verdict.sound:
        compared = f", {verdict.checksums} checksums" if verdict.checksums else ""
        show(
            f"{verdict.path}: this {verdict.kind} is sound: {verdict.tensors} tensors, "
            f"{verdict.nbytes / 1e6:.1f} MB{compared}"
        )
