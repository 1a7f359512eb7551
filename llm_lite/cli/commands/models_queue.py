"""`llm-lite models queue`: jobs that fetch, quantize and delete models."""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import time
from collections.abc import Callable, Collection, Mapping

from llm_lite.cli.terminal.output import overwrite, say, show, show_json, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.places.ours import models_folder
from llm_lite.core.hub.queue import commands, steps
from llm_lite.core.hub.queue.jobs import Edit, Jobs, QueuedJob
from llm_lite.core.hub.queue.queue import ModelQueue
from llm_lite.core.hub.queue.queue_file import ProgressFile, QueueFile, is_worked, queue_folder
from llm_lite.core.hub.queue.running import with_progress
from llm_lite.core.messages.library import JobStage, ModelJob, QueueState
from llm_lite.core.records import asdict

_OFTEN, _SELDOM = 0.2, 10.0  # seconds between two lines on a terminal, in a file
_DOING = {
    "download": "downloading",
    "slice": "slicing",
    "quantize": "quantizing",
    "delete source": "deleting the source",
    "delete": "deleting",
}
_TICK = 0.2  # seconds in which Ctrl-C is noticed
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


def show_queue(arguments: argparse.Namespace) -> int:
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
    """Return the id that is this text, or the only one that begins with it."""
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


def carried_out(addition: commands.Addition) -> QueuedJob:
    """Add a job and stay until it has ended. RequestError where it fails.

    Ctrl-C pauses it, unless another program carries it out: the same command, or the window, goes
    on with it.
    """
    file = QueueFile(queue_folder())
    line, follower, job_id = JobLine(), None, addition.job.id
    try:
        job_id = addition.id_in(file.edit(addition))
        follower = _Follower({job_id})
        while True:
            state = follower.state()
            job = _find(state, job_id)
            if job is None:
                raise RequestError("the job was removed from the queue by another llm-lite")
            stage = job.current
            if stage is None:
                line.end()
                done = next((one for one in file.load() if one.id == job_id), None)
                if done is None:  # it is in the state still
                    raise RequestError(f"{job.title} is done, and its row was removed meanwhile")
                return done
            if stage.state in ("failed", "paused"):
                line.end()
                raise RequestError(job.message or f"{job.title}: it was paused by another llm-lite")
            line.show(job, waits=not state.works and stage.state == "waiting")
    except KeyboardInterrupt:
        line.end()
        if follower is None:  # hardly added
            with contextlib.suppress(RequestError):
                file.edit(commands.pause(job_id))
            say("paused: the same command goes on with it, or the window")
        elif follower.works:
            follower.queue.do(commands.pause(job_id))
            say("paused: the same command goes on with it, or the window")
        else:
            say("another llm-lite goes on with it")
        raise
    finally:
        if follower is not None:
            follower.queue.close()


def run_all() -> Jobs:
    """Carry out all jobs that can run, waiting deletions too, and return the jobs as they are
    then."""
    line, follower = JobLine(), _Follower(None)
    shown = ""
    try:
        while busy := [job for job in follower.state().jobs if _is_busy(job)]:
            first = next((j for j in busy if j.current and j.current.state == "running"), busy[0])
            if first.id != shown:
                line.say(first.title)
                shown = first.id
            line.show(first)
    finally:
        line.end()
        follower.queue.close()
    return QueueFile(queue_folder()).load()


class _Follower:
    """The queue's states, one after the other; the first is awaited."""

    def __init__(self, only: Collection[str] | None) -> None:
        self._states: queue.SimpleQueue[QueueState] = queue.SimpleQueue()
        self.queue = ModelQueue(queue_folder(), models_folder(), self._states.put, only=only)
        self._state: QueueState | None = None
        self._problem = ""

    @property
    def works(self) -> bool:
        """Return True if no other program carries the queue out."""
        return self._state is None or self._state.works or not is_worked(queue_folder())

    def state(self) -> QueueState:
        """Return the newest state, after a moment; a problem of the queue itself is printed
        once."""
        while True:
            try:
                self._state = self._states.get(timeout=_TICK)
                while not self._states.empty():
                    self._state = self._states.get()
            except queue.Empty:
                pass
            if self._state is not None:
                if self._state.problem != self._problem:
                    self._problem = self._state.problem
                    say(self._problem)
                return self._state


def _find(state: QueueState, job_id: str) -> ModelJob | None:
    return next((job for job in state.jobs if job.id == job_id), None)


def _is_busy(job: ModelJob) -> bool:
    return job.current is not None and job.current.state in ("waiting", "running")


class JobLine:
    """Written over on standard error; in a file, a line now and then and one a stage."""

    def __init__(self) -> None:
        self._shown, self._stage = 0.0, ""
        self._terminal = sys.stderr.isatty()
        self._begun = False

    def show(self, job: ModelJob, *, waits: bool = False) -> None:
        """waits: another program works, and has not begun with this job."""
        now = time.monotonic()
        stage = job.current
        if stage is None:
            return
        words = "waits for another llm-lite" if waits else stage_line(stage)
        fresh = words if waits else stage.stage
        interval = _OFTEN if self._terminal else _SELDOM
        if fresh == self._stage and now - self._shown < interval:
            return
        self._stage, self._shown, self._begun = fresh, now, True
        overwrite(words)

    def end(self) -> None:
        if self._begun and self._terminal:
            overwrite("", last=True)
        self._begun = False

    def say(self, sentence: str) -> None:
        self.end()
        say(sentence)


def stage_line(stage: JobStage) -> str:
    words = [_DOING[stage.stage]]
    if stage.total:
        words[0] += f" {min(100, 100 * stage.done // stage.total)} %"
    if stage.stage == "download" and stage.total:
        words.append(f"{stage.done / 1e6:,.1f} of {stage.total / 1e6:,.1f} MB")
        if stage.rate:
            words.append(f"{stage.rate / 1e6:,.1f} MB/s")
    if stage.left is not None:
        words.append(f"{duration(stage.left)} left")
    line = ", ".join(words)
    return f"{line}  {stage.detail}" if stage.detail else line


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
