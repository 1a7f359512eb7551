"""`llm-lite tour`: pictures of the interface, taken while it is used."""

from __future__ import annotations

import argparse

from llm_lite.cli.engine_words import engine_options, sampling_options
from llm_lite.cli.terminal.output import show
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.model import with_asked
from llm_lite.desktop.tour.clock import process_start
from llm_lite.desktop.tour.stage import SAMPLING
from llm_lite.desktop.tour.tour import run_tour


def run(arguments: argparse.Namespace) -> int:
    """Write the pictures and report.json into a folder; the exit code."""
    report = run_tour(
        arguments.directory,
        arguments.prompt,
        engine_options(arguments),
        arguments.model,
        process_start(),
        with_asked(AppState(sampling=SAMPLING), sampling=sampling_options(arguments)).sampling,
        language=arguments.language,
    )
    if report["answer"]:
        show(report["answer"] + "\n")
    show(f"{len(report['pictures'])} pictures and report.json are in {arguments.directory}")
    return 0
