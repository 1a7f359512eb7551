"""`llm-lite synth`: a checkpoint of a real model's shapes with random weights."""

from __future__ import annotations

import argparse

from llm_lite.cli.commands.slicing import Percent
from llm_lite.cli.terminal.output import show
from llm_lite.core.convert.synthetic import write_synthetic
from llm_lite.core.errors import RequestError
from llm_lite.core.files.folders import check_folder
from llm_lite.core.files.writing import check_place


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
