"""The commands of a person for the queue: each makes a change of its jobs.

`RequestError` where a change does not fit what the job is by now; the sentence says why.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue.jobs import (
    CANCELLED,
    GRACE,
    Edit,
    Jobs,
    QueuedJob,
    same_request,
    with_current,
)
from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import JobStage, LocalModel, ModelJob, Origin, Stage, StageState
from llm_lite.core.records import replace

_OURS: tuple[Origin, ...] = ("llm-lite", "huggingface")
_MAIN = "main"
_BUSY: tuple[StageState, ...] = ("waiting", "running", "paused")


class Addition(Struct, frozen=True):
    """Adds a job, or lets an equal one continue that has not ended."""

    job: QueuedJob

    def __call__(self, jobs: Jobs) -> Jobs:
        for known in jobs:
            if self._is(known):
                return _put(jobs, _going_on(known))
        return (*jobs, self.job)

    def id_in(self, jobs: Jobs) -> str:
        """Return the id of the job that the addition has become."""
        return next((job.id for job in jobs if self._is(job)), self.job.id)

    def _is(self, known: QueuedJob) -> bool:
        return known.row.current is not None and same_request(known, self.job)


def new_id() -> str:
    """Return a new job's id, by which it can be named before it is in the file."""
    return secrets.token_hex(6)


def fetch(
    repo: str,
    file: str = "",
    *,
    revision: str = "",
    size: int = 0,
    mode: Mode | None = None,
    calibrate: bool = True,
    cut: str = "",
    delete_source: bool = False,
    job_id: str = "",
) -> Addition:
    """Download `file` of a repository, or its checkpoint, and convert it as requested.

    size: bytes, where they are known. revision: "" for the newest of the branch main. Where the
    same is in the queue already and has not ended, it goes on instead.
    """
    revision = "" if revision == _MAIN else revision
    made = _steps(mode, cut, delete_source)
    stages = (JobStage("download", total=size), *map(JobStage, made))
    source = f"hf:{repo}:{file}" if file else f"hf:{repo}"
    row = ModelJob(job_id or new_id(), source[3:], source, mode, stages, slice=cut)
    return Addition(QueuedJob(row, repo, file, revision, revision, calibrate=calibrate))


def convert(
    model: LocalModel,
    *,
    mode: Mode | None = None,
    calibrate: bool = True,
    cut: str = "",
    delete_source: bool = False,
    job_id: str = "",
) -> Addition:
    """Return an edit that makes a variant or a slice of a model on this machine."""
    if model.problem:
        raise RequestError(f"{model.name} cannot be converted: {model.problem}")
    if delete_source and model.origin not in _OURS:
        raise RequestError(
            f"{model.name} is kept: only models of our own folder and of the Hugging Face cache "
            "are deleted after something was made of them"
        )
    made = _steps(mode, cut, delete_source)
    if not made:
        raise RequestError(f"{model.name}: expected a weight mode or a slice to make of it")
    row = ModelJob(
        job_id or new_id(), model.name, model.name, mode, tuple(map(JobStage, made)), slice=cut
    )
    return Addition(QueuedJob(row, path=str(model.path), calibrate=calibrate))


def delete(
    models: Sequence[LocalModel],
    frees: int,
    *,
    grace: float = GRACE,
    job_id: str = "",
) -> Addition:
    """Return an edit that deletes models once all else is done; `undo` withdraws it until then.

    frees: bytes, as the plan of the removal says, which counts shared files once.
    """
    if not models:
        raise RequestError("expected a model to delete")
    names = tuple(model.name for model in models)
    row = ModelJob(
        job_id or new_id(),
        ", ".join(names),
        names[0],
        None,
        (JobStage("delete"),),
        deletes=names,
        frees=frees,
    )
    return Addition(QueuedJob(row, paths=tuple(str(m.path) for m in models), grace=grace))


def pause(job_id: str) -> Edit:
    return _of_one(job_id, "paused", ("waiting", "running"), lambda j: with_current(j, "paused"))


def resume(job_id: str) -> Edit:
    return _of_one(job_id, "resumed", ("paused",), lambda j: with_current(j, "waiting"))


def cancel(job_id: str) -> Edit:
    """Return an edit that ends a job where it is; what was fetched stays for a retry."""

    def cancelled(job: QueuedJob) -> QueuedJob:
        return with_current(job, "failed").changed(message=CANCELLED)

    return _of_one(job_id, "cancelled", _BUSY, cancelled)


def retry(job_id: str) -> Edit:
    """Return an edit that retries a job from the stage that failed, or from the download if what it
    brought is gone."""
    return _of_one(job_id, "tried again", ("failed",), _again)


def remove(job_id: str) -> Edit:
    """Return an edit that removes the row, and ends the job first if it runs. A deletion that has
    not begun is undone so."""

    def change(jobs: Jobs) -> Jobs:
        _find(jobs, job_id)
        return tuple(job for job in jobs if job.id != job_id)

    return change


def clear(jobs: Jobs) -> Jobs:
    """Remove the rows of jobs that are done or have failed."""
    stages = ((job, job.row.current) for job in jobs)
    return tuple(job for job, stage in stages if stage is not None and stage.state != "failed")


def undo(job_id: str) -> Edit:
    """Return an edit that withdraws a deletion before it is carried out."""

    def change(jobs: Jobs) -> Jobs:
        job = _find(jobs, job_id)
        stage = job.row.current
        if not job.is_deletion:
            raise RequestError(f"{job.row.title}: only a deletion is undone; cancel this job")
        if stage is None or stage.state == "running":
            raise RequestError(f"{job.row.title}: the deletion has begun, which is not undone")
        return tuple(other for other in jobs if other.id != job_id)

    return change


def delete_now(job_id: str) -> Edit:
    """Return an edit that makes a waiting deletion the next job."""

    def next_one(job: QueuedJob) -> QueuedJob:
        if not job.is_deletion:
            raise RequestError(f"{job.row.title} is no deletion")
        return replace(with_current(job, "waiting"), now=True)

    return _of_one(job_id, "carried out", ("waiting", "paused"), next_one)


def keep_source(job_id: str) -> Edit:
    """Return an edit that keeps the source, though the job was to delete it."""

    def change(jobs: Jobs) -> Jobs:
        job = _find(jobs, job_id)
        last = job.row.stages[-1]
        if last.stage != "delete source":
            raise RequestError(f"{job.row.title}: this job deletes no source")
        if last.state in ("running", "done"):
            raise RequestError(f"{job.row.title}: its source is being deleted, or is gone")
        stages = (*job.row.stages[:-1], replace(last, state="skipped"))
        return _put(jobs, job.changed(stages=stages))

    return change


def _steps(mode: Mode | None, cut: str, delete_source: bool) -> list[Stage]:
    if mode == "as-stored":
        raise RequestError("as-stored is what a model is in already; expected another weight mode")
    steps: list[Stage] = []
    if cut:
        steps.append("slice")
    if mode is not None:
        steps.append("quantize")
    if delete_source:
        if not steps:
            raise RequestError("a source is deleted only where something is made of it first")
        steps.append("delete source")
    return steps


def _going_on(job: QueuedJob) -> QueuedJob:
    stage = job.row.current
    assert stage is not None
    if stage.state == "paused":
        return with_current(job, "waiting")
    return _again(job) if stage.state == "failed" else job


def _again(job: QueuedJob) -> QueuedJob:
    stages = job.row.stages
    if stages[0].stage == "download" and job.path and not Path(job.path).exists():
        stages = tuple(s if s.state == "skipped" else replace(s, state="waiting") for s in stages)
        again = replace(job, path="", cut="", variant="", revision=job.asked_revision)
        return again.changed(stages=stages, message="")
    return with_current(job, "waiting").changed(message="")


def _of_one(
    job_id: str,
    done: str,
    states: Sequence[StageState],
    changed: Callable[[QueuedJob], QueuedJob],
) -> Edit:
    """Return a change of a job whose stage is in one of `states`; `done` names what is impossible
    in another one."""

    def change(jobs: Jobs) -> Jobs:
        job = _find(jobs, job_id)
        stage = job.row.current
        state = "done" if stage is None else stage.state
        if state not in states:
            raise RequestError(f"{job.row.title} is {state}, and cannot be {done}")
        return _put(jobs, changed(job))

    return change


def _find(jobs: Jobs, job_id: str) -> QueuedJob:
    for job in jobs:
        if job.id == job_id:
            return job
    raise RequestError(f"the queue has no job {job_id[:40]!r} any more")


def _put(jobs: Jobs, job: QueuedJob) -> Jobs:
    return tuple(job if other.id == job.id else other for other in jobs)
