"""The file of the queue: read as untrusted, changed under a lock, replaced whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.renaming import rename_free
from llm_lite.core.files.writing import reason, write_file
from llm_lite.core.hub.queue.jobs import Edit, Jobs, from_json, to_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

VERSION = 1
MOST_JOBS = 500
_MOST_FINISHED = 50  # rows of finished jobs that are kept
_MOST_BYTES = 8 << 20
_PATIENCE = 10.0  # seconds; an edit takes milliseconds

Signature = tuple[int, int, int] | None


def queue_folder() -> Path:
    """Return this person's folder of the queue."""
    return user_folder("state") / "models"


class QueueFile:
    """The queue's file. `load` and `edit` raise FileError if it can be neither used nor set aside;
    it is left as it is then. A damaged one is set aside, and `problem` says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "queue.json"
        self.problem = ""

    def load(self) -> Jobs:
        try:
            return self._read()
        except _DamagedError:
            with self._locked():
                return self._sound()

    def edit(self, change: Edit) -> Jobs:
        """Change the jobs in the file and return them. RequestError is the change's own."""
        with self._locked():
            before = self._sound()
            after = _trimmed(change(before))
            if after != before:
                self._write(after)
            return after

    def signature(self) -> Signature:
        """Return a signature that changes when the file does."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _read(self) -> Jobs:
        if not self.path.exists():
            return ()
        try:
            value = read_object(self.path, limit=_MOST_BYTES, private=True)
        except FileError as error:
            if isinstance(error.__cause__, OSError):  # it may be whole: nobody can tell
                raise
            raise _DamagedError(self.path, error.problem) from None
        if (version := value.get("version")) != VERSION:
            if type(version) is int and version > VERSION:
                raise FileError(
                    self.path,
                    f"version: expected {VERSION}, found {version}; it was written by a newer "
                    "llm-lite, which alone can go on with this queue",
                )
            raise _DamagedError(self.path, f"version: expected {VERSION}, found {found(version)}")
        return self._jobs(value.get("jobs"))

    def _jobs(self, rows: object) -> Jobs:
        if not isinstance(rows, list) or len(rows) > MOST_JOBS:
            problem = f"jobs: expected a list of at most {MOST_JOBS}, found {found(rows)}"
            raise _DamagedError(self.path, problem)
        try:
            jobs = tuple(from_json(row, self.path, f"jobs[{i}]") for i, row in enumerate(rows))
        except FileError as error:
            raise _DamagedError(self.path, error.problem) from None
        if len({job.id for job in jobs}) != len(jobs):
            raise _DamagedError(self.path, "jobs: two have the same id")
        return jobs

    def _sound(self) -> Jobs:
        """Return what the file holds, under the lock; a damaged one is moved aside."""
        try:
            return self._read()
        except _DamagedError as error:
            try:
                aside = rename_free(self.path, self.path.with_name("queue.damaged.json"))
            except OSError as problem:
                raise FileError(self.path, f"{error.problem}; {reason(problem)}") from None
            self.problem = (
                f"The queue of models was damaged and begins empty: {error} "
                f"What it held is kept in {aside}."
            )
            return ()

    def _write(self, jobs: Jobs) -> None:
        value = {"version": VERSION, "jobs": [to_json(job) for job in jobs]}
        try:
            write_file(self.path, json.dumps(value, indent=1).encode(), private=True)
        except FileError as error:
            raise NotSavedError(self.path, error.problem) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import Timeout

        private_folder(self.folder, shared=True)
        lock = lock_of(self.folder, "edit")
        try:
            lock.acquire(timeout=_PATIENCE)
        except Timeout:
            raise FileError(
                self.path, "another program has locked it for more than 10 seconds"
            ) from None
        except OSError as error:
            raise FileError(self.path, f"cannot be locked: {reason(error)}") from None
        try:
            yield
        finally:
            lock.release()


class ProgressFile:
    """The file with the progress of the running stage. It lasts no longer than the stage, so that
    damage only means that the progress is unknown."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "progress.json"

    def write(self, value: dict[str, Any]) -> None:
        with contextlib.suppress(FileError):
            write_file(self.path, json.dumps(value).encode(), private=True)

    def read(self) -> dict[str, Any]:
        try:
            return read_object(self.path, limit=1 << 16)
        except FileError:
            return {}


class NotSavedError(FileError):
    """The queue could be read and not written, as where the disk is full."""


class _DamagedError(FileError):
    """Raised for a file that is no queue for any program."""


def lock_of(folder: Path, name: str) -> BaseFileLock:
    """Return a lock between processes, which the system releases when its process ends."""
    from filelock import FileLock  # late: nobody needs it before there is a queue

    return FileLock(folder / f"{name}.lock")


def is_worked(folder: Path) -> bool:
    """Return True if a program works on the queue now."""
    if not folder.is_dir():
        return False
    lock = lock_of(folder, "worker")
    try:
        lock.acquire(blocking=False)
    except OSError:  # another has it, or nobody can tell
        return True
    lock.release()
    return False


def _trimmed(jobs: Jobs) -> Jobs:
    """Drop the oldest of many finished jobs, and of too many failed ones. RequestError if there are
    too many others."""
    finished = [job.id for job in jobs if job.row.current is None]
    gone = set(finished[: max(0, len(finished) - _MOST_FINISHED)])
    kept = tuple(job for job in jobs if job.id not in gone)
    failed = [job.id for job in kept if job.row.current and job.row.current.state == "failed"]
    gone = set(failed[: max(0, len(kept) - MOST_JOBS)])
    kept = tuple(job for job in kept if job.id not in gone)
    if len(kept) > MOST_JOBS:
        raise RequestError(f"the queue holds {MOST_JOBS} jobs already, which is the most it takes")
    return kept
