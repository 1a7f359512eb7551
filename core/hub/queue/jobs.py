"""A job of the queue as it is kept: what a person sees of it, and what its stages need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found
from llm_lite.core.messages import MODES
from llm_lite.core.messages.library import JobStage, ModelJob, Stage, StageState
from llm_lite.core.records import asdict, replace

GRACE = 10.0  # seconds in which a deletion can be undone after all else is done
CANCELLED = "Cancelled: Retry goes on with it, `llm-lite models gc` deletes what was fetched."


class QueuedJob(Struct, frozen=True):
    """`row` is what a person sees. Paths are absolute; "" where there is none yet."""

    row: ModelJob
    repo: str = ""  # of a download: owner/name
    file: str = ""  # of a download: a file of the repository; "" for a checkpoint
    revision: str = ""  # what is asked for, and once the hub has answered its commit
    asked_revision: str = ""  # what a person asked for
    path: str = ""  # where the source lies
    cut: str = ""  # where the slice lies
    variant: str = ""  # where the variant lies
    calibrate: bool = True
    paths: tuple[str, ...] = ()  # of a deletion: where each of `row.deletes` lay
    grace: float = GRACE  # of a deletion, seconds
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
        """Where the model lies that its stages have made so far."""
        return self.variant or self.cut or self.path

    def changed(self, **values: Any) -> QueuedJob:
        """With other values of the row."""
        return replace(self, row=replace(self.row, **values))


Jobs = tuple[QueuedJob, ...]
Edit = Callable[[Jobs], Jobs]


def same_request(one: QueuedJob, other: QueuedJob) -> bool:
    """Whether both ask for the same; paths that only one of them knows by now do not count."""

    def asked(job: QueuedJob) -> tuple[object, ...]:
        row = job.row
        steps = [stage.stage for stage in row.stages]
        return (
            *(row.source, job.asked_revision, row.mode, row.slice, row.deletes),
            *(job.calibrate, steps),
        )

    return asked(one) == asked(other)


def with_current(job: QueuedJob, state: StageState, **values: Any) -> QueuedJob:
    """The stage whose turn it is in another state."""
    current = job.row.current
    stages = tuple(
        replace(stage, state=state, **values) if stage is current else stage
        for stage in job.row.stages
    )
    return job.changed(stages=stages)


def to_json(job: QueuedJob) -> dict[str, Any]:
    """What runs now is told elsewhere: of a stage only what lasts is kept."""
    value = asdict(job)
    for stage in value["row"]["stages"]:
        stage["rate"], stage["left"] = 0.0, None
    return value


def from_json(value: object, path: Path, place: str) -> QueuedJob:
    """FileError names the field that is wrong."""
    entry = _object(value, path, place)
    row = _object(entry.pop("row", None), path, f"{place}.row")
    stages = row.pop("stages", None)
    if not isinstance(stages, list) or not 1 <= len(stages) <= 8:
        raise FileError(path, f"{place}.row.stages is {found(stages)}, expected a list of 1 to 8")
    read = tuple(
        JobStage(**_checked(JobStage, _object(stage, path, at), path, at))
        for at, stage in ((f"{place}.row.stages[{i}]", s) for i, s in enumerate(stages))
    )
    job = QueuedJob(
        ModelJob(**_checked(ModelJob, row, path, f"{place}.row"), stages=read),
        **_checked(QueuedJob, entry, path, place),
    )
    if len(job.paths) != len(job.row.deletes):
        raise FileError(path, f"{place}.paths: expected as many as row.deletes has")
    return job


_WORDS: Mapping[str, Sequence[object]] = {
    "stage": get_args(Stage),
    "state": get_args(StageState),
    "mode": (*MODES, None),
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "float | None": (int, float, NoneType),
    "tuple[str, ...]": (list, tuple),
}


def _object(value: object, path: Path, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(path, f"{place} is {found(value)}, expected an object")
    return dict(value)


def _checked(kind: type, values: dict[str, Any], path: Path, place: str) -> dict[str, Any]:
    """The values of a dataclass, each of its type; lists become tuples."""
    known = kind.__annotations__
    result = {}
    for name, value in values.items():
        if name not in known:
            raise FileError(path, f"{place} has an unknown field {found(name)}")
        if not _fits(name, known[name], value):
            raise FileError(path, f"{place}.{name} is {found(value)}, which it cannot be")
        result[name] = tuple(value) if isinstance(value, list) else value
    missing = {"id", "title", "source", "mode", "stage"} & known.keys() - result.keys()
    if missing:
        raise FileError(path, f"{place}.{min(missing)} is missing")
    return result


def _fits(name: str, kind: str, value: object) -> bool:
    if name in _WORDS:
        return isinstance(value, str | NoneType) and value in _WORDS[name]
    if isinstance(value, bool) and kind != "bool":
        return False
    if isinstance(value, list | tuple) and not all(isinstance(item, str) for item in value):
        return False
    if isinstance(value, int | float) and not 0 <= value < 1 << 62:
        return False
    return isinstance(value, _TYPES[kind])
