"""From job to job as its stages go: what is next, what its process is given, how it ended.

These changes are the program's own. They pass over a job that a person has removed, paused or
cancelled meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.hub.queue.jobs import (
    CANCELLED,
    Edit,
    Jobs,
    QueuedJob,
    same_request,
    with_current,
)
from llm_lite.core.messages.library import Stage
from llm_lite.core.records import replace


def next_job(jobs: Jobs, only: Collection[str] | None) -> QueuedJob | None:
    """Return the first job that is no deletion, or is one that is not to wait; `only`: of these
    ids."""
    for job in jobs:
        mine = only is None or job.id in only
        if mine and job.is_runnable and (not job.is_deletion or job.now):
            return job
    return None


def waiting_deletions(jobs: Jobs, only: Collection[str] | None) -> Jobs:
    return tuple(
        job
        for job in jobs
        if job.is_deletion and job.is_runnable and (only is None or job.id in only)
    )


def downloads_to_come(jobs: Jobs) -> set[str]:
    """Return repositories whose partial files are needed; those of a cancelled job are not."""
    return {
        job.repo
        for job in jobs
        if (stage := job.row.current) is not None
        and stage.stage == "download"
        and job.row.message != CANCELLED
    }


def task_of(job: QueuedJob, models: Path) -> dict[str, Any]:
    """Return what the process of the current stage needs to know; `models`: our folder."""
    stage = job.row.current
    assert stage is not None
    return {
        "stage": stage.stage,
        "repo": job.repo,
        "file": job.file,
        "revision": job.revision,
        "source": f"hf:{job.repo}:{job.file}" if job.file else job.row.source,
        "path": job.path,
        "input": job.cut or job.path,
        "output": job.output,
        "mode": job.row.mode,
        "slice": job.row.slice,
        "calibrate": job.calibrate,
        "names": job.row.deletes,
        "paths": job.paths,
        "models": str(models),
    }


def begun(job_id: str) -> Edit:
    def change(jobs: Jobs) -> Jobs:
        return tuple(
            with_current(job, "running", done=0).changed(message="")
            if job.id == job_id and job.is_runnable
            else job
            for job in jobs
        )

    return change


def requeue_running(jobs: Jobs) -> Jobs:
    """Requeue jobs that ran: their process, or their program, has ended."""
    return tuple(with_current(job, "waiting") if _runs(job) else job for job in jobs)


def reached(job_id: str, stage: Stage, done: int, total: int) -> Edit:
    """Return how far a stage was when it was stopped: it is shown while the job is paused."""

    def change(jobs: Jobs) -> Jobs:
        return tuple(_reached(job, stage, done, total) if job.id == job_id else job for job in jobs)

    return change


def _reached(job: QueuedJob, stage: Stage, done: int, total: int) -> QueuedJob:
    current = job.row.current
    if current is None or current.stage != stage or not total:
        return job
    return with_current(job, current.state, done=done, total=total)


def finished(job_id: str, made: Mapping[str, Any], total: int = 0) -> Edit:
    """`made` has the path, and perhaps the name, of what was made; or the bytes freed.
    total: bytes of a download. With its last stage it takes the place of an older row that asked
    for the same."""

    def change(job: QueuedJob) -> QueuedJob:
        stage = job.row.current
        assert stage is not None
        whole = total or stage.total or 1000
        done = with_current(job, "done", done=whole, total=whole, rate=0.0, left=None, detail="")
        path = str(made.get("path", ""))
        if stage.stage == "download":
            revision, file = made.get("revision") or job.revision, made.get("file") or job.file
            done = replace(done, path=path, revision=str(revision), file=str(file))
        elif stage.stage == "slice":
            done = replace(done, cut=path)
        elif stage.stage == "quantize":
            done = replace(done, variant=path)
        else:
            done = done.changed(frees=int(made.get("freed", 0)))
        return done.changed(result=str(made.get("name", "")) or done.row.result, message="")

    def without_older(jobs: Jobs) -> Jobs:
        jobs = _of_running(job_id, change)(jobs)
        ended = [job for job in jobs if job.row.current is None]
        new = [job for job in ended if job.id == job_id]
        old = {job.id for job in ended for one in new if job is not one and same_request(job, one)}
        return tuple(job for job in jobs if job.id not in old)

    return without_older


def failed(job_id: str, sentence: str) -> Edit:
    return _of_running(job_id, lambda job: with_current(job, "failed").changed(message=sentence))


def _of_running(job_id: str, changed: Callable[[QueuedJob], QueuedJob]) -> Edit:
    def change(jobs: Jobs) -> Jobs:
        return tuple(changed(job) if job.id == job_id and _runs(job) else job for job in jobs)

    return change


def _runs(job: QueuedJob) -> bool:
    stage = job.row.current
    return stage is not None and stage.state == "running"
