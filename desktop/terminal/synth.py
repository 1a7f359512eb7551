"""`llm-lite synth`: a checkpoint of a real model's shapes with random weights."""

from __future__ import annotations

import argparse

from core.synthetic import write_synthetic
from desktop.terminal.files import check_place
from desktop.terminal.slicing import Percent


def run(arguments: argparse.Namespace) -> int:
    check_place(arguments.target)
    write_synthetic(arguments.name, arguments.target, seed=arguments.seed, progress=Percent())
    print(arguments.target)
    return 0
