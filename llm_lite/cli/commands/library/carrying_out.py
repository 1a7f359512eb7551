"""Jobs of the queue of models, carried out or looked at by a command until they have ended."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Collection

from llm_lite.cli.commands.library.job_line import JobLine
from llm_lite.cli.terminal.output import say
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.local.places.ours import models_folder
from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.queue.jobs import Jobs, QueuedJob
from llm_lite.core.hub.queue.queue import ModelQueue
from llm_lite.core.hub.queue.queue_file import QueueFile, is_worked, queue_folder
from llm_lite.core.messages.library import ModelJob, QueueState

_TICK = 0.2  # seconds in which Ctrl-C is noticed


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
    """Everything that can be carried out, deletions that wait too; the jobs in the end."""
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
        """Whether no other program carries the queue out."""
        return self._state is None or self._state.works or not is_worked(queue_folder())

    def state(self) -> QueueState:
        """The newest, after a moment; what is wrong with the queue itself is told once."""
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
