"""`python -m tools.tour DIR`: pictures of the interface, taken while it is used, and a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from llm_lite.cli import entry
from llm_lite.cli.engine_words import (
    ADVISED,
    add_engine,
    add_sampling,
    add_speculation,
    engine_options,
    sampling_options,
)
from llm_lite.cli.parser import Parser
from llm_lite.cli.terminal import endings, output
from llm_lite.cli.terminal.interrupts import ends_in_order
from llm_lite.core.text.sandbox.process import sandbox


@ends_in_order
def main(
    argv: Sequence[str] | None = None, *, imported: Callable[[], object] = lambda: None
) -> int:
    """Run the tour; its exit code, as a command's. `imported` is called when all modules are
    there."""
    output.prepare()
    return endings.ended(lambda: _run(_parser().parse_args(argv), imported))


def _run(arguments: argparse.Namespace, imported: Callable[[], object]) -> int:
    sandbox().warm()  # it starts while we import, as it does for the window
    from llm_lite.desktop.features.program.state import AppState
    from llm_lite.desktop.features.sampling.model import with_asked
    from tools.tour.clock import process_start
    from tools.tour.stage import SAMPLING
    from tools.tour.tour import run_tour

    imported()
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
        output.show(report["answer"] + "\n")
    output.show(f"{len(report['pictures'])} pictures and report.json are in {arguments.directory}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="python -m tools.tour",
        description="Run the window without a display and write pictures of it.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--prompt", help="what to ask the model")
    parser.add_argument("--model", metavar="MODEL")
    parser.add_argument(
        "--language", default="en", metavar="CODE", help="language of the window: en, ko"
    )
    add_engine(parser.add_argument_group("engine"))
    add_speculation(parser.add_argument_group("speculation"))
    add_sampling(parser.add_argument_group("sampling", ADVISED))
    return parser


if __name__ == "__main__":
    sys.exit(entry.run(main))
