"""`llm-lite models queue`: what is fetched, quantized and deleted, and commands for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from llm_lite.cli.commands.library.carrying_out import run_all
from llm_lite.cli.commands.library.job_line import stage_line
from llm_lite.cli.terminal.output import show, show_json, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue import commands, steps
from llm_lite.core.hub.queue.jobs import Edit, Jobs
from llm_lite.core.hub.queue.queue_file import ProgressFile, QueueFile, is_worked, queue_folder
from llm_lite.core.hub.queue.running import with_progress
from llm_lite.core.messages.library import ModelJob
from llm_lite.core.records import asdict

WORDS: Mapping[str, Callable[[str], Edit]] = {
    "pause": commands.pause,
    "resume": commands.resume,
    "cancel": commands.cancel,
    "retry": commands.retry,
    "remove": commands.remove,
    "undo": commands.undo,
    "delete-now": commands.delete_now,
    "keep-source": commands.keep_source,
}


def run(arguments: argparse.Namespace) -> int:
    file = QueueFile(queue_folder())
    if arguments.do == "run":
        if arguments.job:
            raise RequestError("run: carries everything out that waits, and takes no id of a job")
        jobs = run_all()
    elif arguments.do == "clear":
        if arguments.job:
            raise RequestError("clear: takes no id of a job; remove takes the row of one away")
        jobs = file.edit(commands.clear)
    elif arguments.do is not None:
        if not arguments.job:
            raise RequestError(f"{arguments.do}: expected the id of a job, as the list shows it")
        jobs = file.load()
        for text in arguments.job:
            jobs = file.edit(WORDS[arguments.do](_id_of(jobs, text)))
    else:
        jobs = file.load()
    if not is_worked(queue_folder()):
        jobs = steps.requeue_running(jobs)  # what is said to run does not
    if file.problem:
        warn(file.problem)
    progress = ProgressFile(queue_folder()).read()
    rows = [with_progress(job.row, progress) for job in jobs]
    if arguments.json:
        show_json([asdict(row) for row in rows])
    else:
        _show(rows)
        if any(job.is_runnable for job in jobs) and not is_worked(queue_folder()):
            show(
                "No llm-lite carries this out now: `llm-lite models queue run` does, or the window."
            )
    failed = any(row.current is not None and row.current.state == "failed" for row in rows)
    return int(arguments.do == "run" and failed)


def _id_of(jobs: Jobs, text: str) -> str:
    """An id, or its beginning where no other begins so."""
    found = [job.id for job in jobs if job.id.startswith(text)]
    if len(found) == 1 or text in found:
        return text if text in found else found[0]
    if found:
        raise RequestError(f"{text!r} is the beginning of {len(found)} jobs: {', '.join(found)}")
    raise RequestError(f"the queue has no job {text[:40]!r}")


def _show(rows: list[ModelJob]) -> None:
    if not rows:
        show("The queue is empty.")
    for row in rows:
        goal = " as ".join(filter(None, (row.slice, row.mode)))
        show(f"{row.id}  {row.title}{f' -> {goal}' if goal else ''}")
        show(
            "              " + " | ".join(_stage(row, number) for number in range(len(row.stages)))
        )
        if row.message:
            show(f"              {row.message}")


def _stage(row: ModelJob, number: int) -> str:
    stage = row.stages[number]
    if stage.state == "running":
        return stage_line(stage)
    deletes = stage.stage.startswith("delete") and row.frees
    freed = f", {row.frees / 1e6:,.0f} MB" if deletes else ""
    return f"{stage.stage}: {stage.state}{freed}"
