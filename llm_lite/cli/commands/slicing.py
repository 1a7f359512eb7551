"""`llm-lite slice`: a smaller Gemma 3n cut out of a larger one."""

from __future__ import annotations

import argparse
import sys

from llm_lite.cli.terminal.output import overwrite, show
from llm_lite.core.convert.slicing import find_slice, slice_model
from llm_lite.core.hub import catalog


class Percent:
    """Shows how far a long work is, where somebody looks."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, part: float) -> None:
        percent = int(100 * part)
        if percent != self._shown and sys.stderr.isatty():
            overwrite(f"{percent} %", last=percent == 100)
        self._shown = percent


def run(arguments: argparse.Namespace) -> int:
    slice_model(
        catalog.resolve(arguments.source),
        arguments.target,
        find_slice(arguments.config),
        view=arguments.view,
        progress=Percent(),
    )
    show(str(arguments.target))
    return 0
