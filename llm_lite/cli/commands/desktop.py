"""`llm-lite desktop`: the window."""

from __future__ import annotations

import argparse

from llm_lite.cli.engine_words import engine_options, sampling_options
from llm_lite.cli.terminal.output import warn
from llm_lite.desktop.app.app import open_window


def run(arguments: argparse.Namespace) -> int:
    """Stay until the window is closed; the exit code."""
    ended = open_window(
        arguments.model, engine_options(arguments), sampling_options(arguments), warn
    )
    if not ended:
        warn("the engine did not end in time")
    return 0 if ended else 1
