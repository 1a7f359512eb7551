"""The thread that carries the queue out, or shows what another program does of it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.queue import steps
from llm_lite.core.hub.queue.jobs import Edit, Jobs, QueuedJob
from llm_lite.core.hub.queue.queue_file import (
    NotSavedError,
    ProgressFile,
    QueueFile,
    lock_of,
)
from llm_lite.core.hub.queue.running import WORKER, RunningStage, text_of, with_progress
from llm_lite.core.messages.library import ModelJob, QueueState
from llm_lite.core.records import replace

_POLL, _POLL_RUNNING = 0.5, 0.2  # seconds between checks of the file
_TELL = 0.2  # seconds between two progresses
_SAVE_PROGRESS = 1.0
_SAVE_AGAIN = 5.0  # after the file could not be written


class ModelQueue:
    """The queue of models, for any thread; nothing here waits for the disk but `close`, which ends
    what runs.

    folder: of the queue's own files; models: where what is made goes. `on_change` is called with
    the state on the queue's thread. only: the ids of the jobs that this program carries out; None
    for all. What ran when the program was closed goes on when one is started again.
    """

    def __init__(
        self,
        folder: Path,
        models: Path,
        on_change: Callable[[QueueState], None],
        *,
        only: Collection[str] | None = None,
        worker: str = WORKER,
    ) -> None:
        self._file, self._progress_file = QueueFile(folder), ProgressFile(folder)
        self._folder, self._models, self._on_change = folder, models, on_change
        self._only, self._worker = only, worker
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._jobs: Jobs = ()
        self._seen: object = ""  # the file's signature that `_jobs` is of
        self._unsaved: list[Edit] = []  # the disk is full: they are made again later
        self._save_at = 0.0
        self._problem = ""  # with the last command, or the file when it was read
        self._trouble = ""  # with reading or saving, until that is done
        self._lock: Any = None  # while this program works
        self._running: RunningStage | None = None
        self._emitted: tuple[QueueState | None, float] = (
            None,
            0.0,
        )  # the first is reported, even empty
        self._progress_saved: tuple[float, Mapping[str, Any]] = 0.0, {}
        self._quiet_since: dict[str, float] = {}  # deletions: since when nothing else is to do
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="model queue", daemon=True)
        self._thread.start()

    def do(self, command: Edit) -> None:
        """Execute a command of `commands`; one that cannot be executed is the state's problem."""
        self._inbox.put(lambda: self._obey_person(command))

    def close(self) -> None:
        """End what runs, within seconds; it waits in the queue then."""
        self._inbox.put(self._begin_to_close)
        self._thread.join()

    def _begin_to_close(self) -> None:
        self._closing = True

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._turn()
                except Exception as error:  # a defect must not end the queue without a word
                    self._problem = f"a defect of the program: {type(error).__name__}: {error}"
                    time.sleep(_POLL)
        finally:
            self._end()

    def _turn(self) -> None:
        self._poll_file()
        self._work()
        self._emit_state()
        self._save_progress()
        self._serve(_POLL_RUNNING if self._running else self._pause())

    def _pause(self) -> float:
        """Return the seconds to wait: a deletion's countdown is shown."""
        return _POLL_RUNNING if self._quiet_since else _POLL

    def _serve(self, seconds: float) -> None:
        """Run what is in the inbox; waits up to `seconds` for the first of it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                work = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            work()
            deadline = min(deadline, time.monotonic() + 0.02)

    # The file

    def _poll_file(self) -> None:
        """Read what other programs have written."""
        signature = self._file.signature()
        if signature != self._seen:
            try:
                self._take(self._file.load())
                if not self._unsaved:
                    self._trouble = ""
            except FileError as error:
                self._trouble = str(error)
            self._seen = signature
        if self._unsaved and time.monotonic() >= self._save_at:
            self._edit(lambda jobs: jobs)

    def _obey_person(self, command: Edit) -> None:
        self._problem = ""
        try:
            self._edit(command, asked=True)
        except FileError as error:
            self._problem = str(error)

    def _edit(self, change: Edit, *, asked: bool = False) -> None:
        """Edit the jobs. What cannot be saved holds here, and is saved later. FileError for a
        person's command if the file cannot even be read: it may be that of a newer version."""
        changes = [*self._unsaved, change]
        try:
            jobs = self._file.edit(lambda jobs: _all(changes, jobs))
            self._unsaved, self._trouble = [], ""
            self._take(jobs)
        except RequestError as error:
            self._problem = str(error)
        except FileError as error:
            if asked and not isinstance(error, NotSavedError):
                raise
            self._trouble = f"The queue of models cannot be saved: {error}"
            self._save_at = time.monotonic() + _SAVE_AGAIN
            self._unsaved = [*self._unsaved, _where_it_fits(change)]
            self._jobs = _all(self._unsaved[-1:], self._jobs)

    def _take(self, jobs: Jobs) -> None:
        if self._file.problem:
            self._problem, self._file.problem = self._file.problem, ""
        self._jobs = _all(self._unsaved, jobs)

    # The work

    def _work(self) -> None:
        if self._running is not None:
            self._obey(self._running)
            return
        wanted = steps.next_job(self._jobs, self._only)
        deletions = steps.waiting_deletions(self._jobs, self._only)
        if wanted is None and not deletions:
            self._quiet_since.clear()
            self._leave()
            return
        if not self._leads():
            return
        due = self._due(deletions)  # always: other work begins their grace again
        wanted = steps.next_job(self._jobs, self._only) or due
        if wanted is not None:
            self._begin(wanted)

    def _obey(self, running: RunningStage) -> None:
        """Stop what runs if a person has paused, cancelled or removed it."""
        job = self._job(running.job_id)
        stage = job.row.current if job else None
        if running.process.is_stopping or stage is None or stage.state != "running":
            running.process.stop()

    def _leads(self) -> bool:
        """Return True if this program is the one that works on the queue."""
        if self._lock is not None:
            return True
        try:
            private_folder(self._folder, shared=True)
            lock = lock_of(self._folder, "worker")
            lock.acquire(blocking=False)
        except FileError as error:
            self._problem = str(error)
            return False
        except TimeoutError:  # another has it
            return False
        except OSError as error:
            self._problem = f"{self._folder}: cannot be locked: {reason(error)}"
            return False
        self._lock = lock
        self._edit(steps.requeue_running)
        return True

    def _leave(self) -> None:
        """Let another program work."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _due(self, deletions: Jobs) -> QueuedJob | None:
        """Return a deletion that can no longer be undone, as its time is over."""
        now = time.monotonic()
        others = any(job.is_runnable and not job.is_deletion for job in self._jobs)
        ids = {job.id for job in deletions}
        kept = {key: since for key, since in self._quiet_since.items() if key in ids and not others}
        self._quiet_since = kept
        if others:
            return None
        for job in deletions:
            if now - kept.setdefault(job.id, now) >= job.grace:
                return job
        return None

    def _begin(self, job: QueuedJob) -> None:
        task = {**steps.task_of(job, self._models), "folder": str(self._folder)}
        self._edit(steps.begun(job.id))
        begun = self._job(job.id)
        if begun is None or begun.row.current is None or begun.row.current.state != "running":
            return
        try:
            self._running = RunningStage(begun, task, self._on_message, self._worker)
        except RequestError as error:
            self._edit(steps.failed(job.id, str(error)))

    def _on_message(self, message: Mapping[str, Any] | None) -> None:
        self._inbox.put(lambda: self._handle(message))

    def _handle(self, message: Mapping[str, Any] | None) -> None:
        running = self._running
        assert running is not None
        if message is None:
            self._running = None
            self._settle(running)
        else:
            running.handle(message)

    def _settle(self, running: RunningStage) -> None:
        """Settle a job whose process has ended."""
        outcome = running.outcome
        if outcome is not None and "finished" in outcome:
            total = int(running.progress().get("total", 0))
            self._edit(steps.finished(running.job_id, outcome["finished"], total))
        elif self._closing or running.process.is_stopping:
            shown = running.progress()
            how_far = int(shown.get("done", 0)), int(shown.get("total", 0))
            self._edit(steps.reached(running.job_id, running.stage, *how_far))
            self._edit(steps.requeue_running)
        else:
            failure = text_of(outcome, "failed") if outcome else ""
            self._edit(steps.failed(running.job_id, failure or running.process.ending))

    def _end(self) -> None:
        if self._running is not None:
            self._running.process.close()
            while self._running is not None:  # its last words
                self._serve(_POLL_RUNNING)
        self._leave()

    # What is shown

    def _emit_state(self) -> None:
        now = time.monotonic()
        rows = tuple(map(self._row, self._jobs))
        state = QueueState(rows, self._lock is not None, self._trouble or self._problem)
        emitted, at = self._emitted
        if state == emitted:
            return
        if emitted is not None and now - at < _TELL and _without_progress(state, emitted):
            return
        self._emitted = state, now
        self._on_change(state)

    def _save_progress(self) -> None:
        """Save the progress for programs that only show it."""
        now = time.monotonic()
        if self._running is None or now - self._progress_saved[0] < _SAVE_PROGRESS:
            return
        progress = self._running.progress()
        if progress != self._progress_saved[1]:
            self._progress_saved = now, progress
            self._progress_file.write(progress)

    def _row(self, job: QueuedJob) -> ModelJob:
        stage = job.row.current
        if stage is None:
            return job.row
        if stage.state == "running":
            running = self._running
            if running is not None:
                return with_progress(job.row, running.progress())
            return with_progress(job.row, {} if self._lock else self._progress_file.read())
        since = self._quiet_since.get(job.id)
        if since is None or stage.state != "waiting":
            return job.row
        left = max(0.0, round(job.grace - (time.monotonic() - since)))
        stages = tuple(replace(s, left=left) if s is stage else s for s in job.row.stages)
        return replace(job.row, stages=stages)

    def _job(self, job_id: str) -> QueuedJob | None:
        return next((job for job in self._jobs if job.id == job_id), None)


def _all(changes: list[Edit], jobs: Jobs) -> Jobs:
    for change in changes:
        jobs = change(jobs)
    return jobs


def _where_it_fits(change: Edit) -> Edit:
    """Return the change, which leaves the jobs alone where it does not apply any more: it is made
    again later, when another program may have taken the job away."""

    def again(jobs: Jobs) -> Jobs:
        try:
            return change(jobs)
        except RequestError:
            return jobs

    return again


def _without_progress(one: QueueState, other: QueueState) -> bool:
    """Return True if two states are the same but for the progress of the stages."""

    def plain(state: QueueState) -> object:
        rows = [(row, [(s.stage, s.state) for s in row.stages]) for row in state.jobs]
        still = [(replace(row, stages=()), stages) for row, stages in rows]
        return still, state.works, state.problem

    return plain(one) == plain(other)
