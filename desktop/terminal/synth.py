"""`llm-lite synth`: a checkpoint of a real model's shapes with random weights."""

from __future__ import annotations

import argparse

from core.convert.synthetic import write_synthetic
from core.errors import RequestError
from core.files.folders import check_folder
from core.files.writing import check_place
from desktop.terminal.output import show
from desktop.terminal.slicing import Percent


def run(arguments: argparse.Namespace) -> int:
    target, form, mode = arguments.target, arguments.format, arguments.mode
    if form == "gguf":
        if mode is not None:
            raise RequestError(f"--mode {mode}: a GGUF file is of Q4_0; only variants have modes")
        check_place(target)
    else:
        check_folder(target)
    write_synthetic(
        arguments.name,
        target,
        form=form,
        mode=mode or "int4",
        seed=arguments.seed,
        progress=Percent(),
    )
    show(str(target))
    return 0
