"""`llm-lite models pull`: a model from the hub into the Hugging Face cache."""

from __future__ import annotations

import argparse
import sys
import time

from llm_lite.cli.terminal.output import overwrite, say, show, show_json
from llm_lite.core.hub.remote.progress import PullProgress
from llm_lite.core.hub.remote.pulling import pull

_OFTEN, _SELDOM = 0.2, 10.0  # seconds between two lines on a terminal, in a file


def run(arguments: argparse.Namespace) -> int:
    repo, _, file = arguments.source.removeprefix("hf:").partition(":")
    shown = PullLine()
    path = pull(repo, file, arguments.revision, shown)
    shown.end()
    if arguments.json:
        show_json({"source": arguments.source, "path": str(path)})
    else:
        show(str(path))
    return 0


class PullLine:
    """A line on standard error that says how far it is."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._note = ""
        self._interval = _OFTEN if sys.stderr.isatty() else _SELDOM
        self._begun = False

    def __call__(self, progress: PullProgress) -> None:
        now = time.monotonic()
        if progress.note and progress.note != self._note:
            say(f"{progress.file}: {progress.note}")
            self._note = progress.note
        elif now - self._shown >= self._interval:
            self._shown = now
            self._begun = True
            overwrite(line_of(progress))

    def end(self) -> None:
        if self._begun and sys.stderr.isatty():
            overwrite("", last=True)


def line_of(progress: PullProgress) -> str:
    percent = int(100 * progress.all_done / max(1, progress.all_total))
    rate = f", {progress.rate / 1e6:,.1f} MB/s" if progress.rate else ""
    left = "" if progress.left is None else f", {duration(progress.left)} left"
    return (
        f"{percent} %  {progress.all_done / 1e6:,.1f} of {progress.all_total / 1e6:,.1f} MB"
        f"{rate}{left}  {progress.file}"
    )


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
