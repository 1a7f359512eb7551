"""`llm-lite verify`: whether a model's files are whole, a line for whatever is wrong with them."""

from __future__ import annotations

import argparse
import json

from core.verifying import Verdict, verify_model
from desktop.terminal.files import warn
from desktop.terminal.slicing import Percent


def run(arguments: argparse.Namespace) -> int:
    verdict = verify_model(arguments.model, Percent())
    if arguments.json:
        print(json.dumps(_report(verdict), allow_nan=False))
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
        print(finding)
    if verdict.sound:
        compared = f", {verdict.checksums} checksums" if verdict.checksums else ""
        print(
            f"{verdict.path}: this {verdict.kind} is sound: {verdict.tensors} tensors, "
            f"{verdict.nbytes / 1e6:.1f} MB{compared}"
        )
