"""`llm-lite models pull`: a model from the hub, and what is made of it, as a job of the queue."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from llm_lite.cli.commands.models_queue import carried_out
from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.convert.quantizing import VARIANT_MODES
from llm_lite.core.convert.slicing import find_slice
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.remote.files import is_name
from llm_lite.core.hub.remote.pulling import located
from llm_lite.core.messages import MODES, Mode
from llm_lite.core.models.gemma3n.cut import SLICES
from llm_lite.core.plain_text import quote
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    repo, _, file = arguments.source.removeprefix("hf:").partition(":")
    if not is_name(repo):  # else the queue would keep a job that can never succeed
        raise RequestError(f"{quote(repo)} is no name of a repository, expected OWNER/NAME")
    asked = partial(
        commands.fetch,
        revision=arguments.revision,
        mode=_mode(arguments.quantize),
        calibrate=not arguments.no_calibration,
        cut=_slice(arguments.slice),
        delete_source=arguments.delete_source,
    )
    addition = asked(repo, file)  # says now what does not go together
    # The job has the name of the file, as in the window; what is no model makes no job.
    repo, choice = located(repo, file, arguments.revision)
    if choice is not None:
        addition = asked(repo, choice.name, size=choice.size)
    job = carried_out(addition)
    if arguments.json:
        show_json({"source": arguments.source, "path": job.output, **asdict(job.row)})
    else:
        show(job.output)
    return 0


def _slice(text: str) -> str:
    """A name of the table, or the whole path of a file: another program may carry the job out."""
    if not text:
        return ""
    find_slice(text)  # says now what would fail after the download
    return text if text.lower() in map(str.lower, SLICES) else str(Path(text).absolute())


def _mode(text: str | None) -> Mode | None:
    for mode in MODES:
        if mode == text and mode in VARIANT_MODES:
            return mode
    if text is None:
        return None
    expected = ", ".join(VARIANT_MODES)
    raise RequestError(f"--quantize: expected one of {expected}, found {text[:40]!r}")
