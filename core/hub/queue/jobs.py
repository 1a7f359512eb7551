"""A job of the queue as it is kept: what a person sees of it, and what its stages need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.checked import convert_in_file
from llm_lite.core.errors import FileError
from llm_lite.core.messages.library import ModelJob, Seconds, StageState
from llm_lite.core.records import asdict, replace

GRACE = 10.0  # seconds in which a deletion can be undone after all else is done
CANCELLED = "Cancelled: Retry goes on with it, `llm-lite models gc` deletes what was fetched."


class QueuedJob(Struct, frozen=True, forbid_unknown_fields=True):
    """A queued job. `row` is what a person sees. Paths are absolute; "" if there is none yet."""

    row: ModelJob
    repo: str = ""  # of a download: owner/name
    file: str = ""  # of a download: a file of the repository; "" for a checkpoint
    revision: str = ""  # what is asked for, and once the hub has answered its commit
    asked_revision: str = ""  # what a person requested
    path: str = ""  # where the source lies
    cut: str = ""  # where the slice lies
    variant: str = ""  # where the variant lies
    calibrate: bool = True
    paths: tuple[str, ...] = ()  # of a deletion: where each of `row.deletes` lay
    grace: Seconds = GRACE  # of a deletion, seconds
    now: bool = False  # of a deletion: it does not wait for the others

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def is_deletion(self) -> bool:
        return bool(self.row.deletes)

    @property
    def is_runnable(self) -> bool:
        stage = self.row.current
        return stage is not None and stage.state in ("waiting", "running")

    @property
    def output(self) -> str:
        """Return the path of the model that its stages have made so far."""
        return self.variant or self.cut or self.path

    def changed(self, **values: Any) -> QueuedJob:
        """Return the job with other values of its row."""
        return replace(self, row=replace(self.row, **values))


Jobs = tuple[QueuedJob, ...]
Edit = Callable[[Jobs], Jobs]


def same_request(one: QueuedJob, other: QueuedJob) -> bool:
    """Return True if both jobs were requested alike; paths that only one of them knows by now do
    not count."""

    def request_of(job: QueuedJob) -> tuple[object, ...]:
        row = job.row
        steps = [stage.stage for stage in row.stages]
        return (
            *(row.source, job.asked_revision, row.mode, row.slice, row.deletes),
            *(job.calibrate, steps),
        )

    return request_of(one) == request_of(other)


def with_current(job: QueuedJob, state: StageState, **values: Any) -> QueuedJob:
    """Return the job with its current stage in another state."""
    current = job.row.current
    stages = tuple(
        replace(stage, state=state, **values) if stage is current else stage
        for stage in job.row.stages
    )
    return job.changed(stages=stages)


def to_json(job: QueuedJob) -> dict[str, Any]:
    """Return a job as JSON. Progress of a running stage is kept elsewhere: only what lasts is
    stored."""
    value = asdict(job)
    for stage in value["row"]["stages"]:
        stage["rate"], stage["left"] = 0.0, None
    return value


def from_json(value: object, path: Path, place: str) -> QueuedJob:
    """Read a job. FileError names the field that is wrong."""
    job = convert_in_file(value, QueuedJob, path, place)
    if len(job.paths) != len(job.row.deletes):
        raise FileError(path, f"{place}.paths: expected as many as row.deletes has")
    return job
