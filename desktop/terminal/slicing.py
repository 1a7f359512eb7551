"""`llm-lite slice`: a smaller Gemma 3n cut out of a larger one."""

from __future__ import annotations

import argparse
import sys

from core.slicing import find_slice, slice_model


def run(arguments: argparse.Namespace) -> int:
    last = -1

    def show(part: float) -> None:
        nonlocal last
        if sys.stderr.isatty() and int(100 * part) != last:
            last = int(100 * part)
            print(f"\r{last} %", end="" if last < 100 else "\n", file=sys.stderr, flush=True)

    slice_model(arguments.source, arguments.target, find_slice(arguments.config), show)
    print(arguments.target)
    return 0
