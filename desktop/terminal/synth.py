"""`llm-lite synth`: a checkpoint of a real model's shapes with random weights."""

from __future__ import annotations

import argparse

from core.errors import RequestError
from core.files import check_place
from core.formats.variant_writer import check_destination
from core.synthetic import write_synthetic
from desktop.terminal.slicing import Percent


def run(arguments: argparse.Namespace) -> int:
    target, form, mode = arguments.target, arguments.format, arguments.mode
    if form == "gguf":
        if mode is not None:
            raise RequestError(f"--mode {mode}: a GGUF file is of Q4_0; only variants have modes")
        check_place(target)
    else:
        check_destination(target, replace=False)
    write_synthetic(
        arguments.name,
        target,
        form=form,
        mode=mode or "int4",
        seed=arguments.seed,
        progress=Percent(),
    )
    print(target)
    return 0
