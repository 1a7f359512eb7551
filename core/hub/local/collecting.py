"""Collects what is left over: downloads that nobody continues, blobs that no snapshot links to,
files of our own killed writers, imported paths that are gone."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.folders import remove_file, tidy
from llm_lite.core.files.leftovers import abandoned
from llm_lite.core.formats.variant_reader import listed_files
from llm_lite.core.hub.local.disk_usage import usage
from llm_lite.core.hub.local.listing import Places, machine_places
from llm_lite.core.hub.local.places import huggingface, imported

Kind = Literal["partial download", "unused blob", "unfinished folder", "imported path that is gone"]
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PARTIAL = re.compile(r"([0-9a-zA-Z_-]{1,128})(\.[0-9a-f]{8})?\.incomplete")
_MOST_LINKS = 100_000  # of a repository


class Leftover(Struct, frozen=True):
    kind: Kind
    path: Path
    size: int  # bytes
    target: Path | None = None  # of an unfinished folder: what it was to become


def leftovers(places: Places | None = None, *, needed: Collection[str] = ()) -> list[Leftover]:
    """Return what can be deleted. `needed`: repositories (owner/name) of downloads that continue
    later, whose partial files stay, as do those of a download that runs in any program."""
    where = machine_places() if places is None else places
    keep = {repo.lower() for repo in needed}
    found: list[Leftover] = []
    for folder in where.of("huggingface"):
        found += _of_cache(folder, keep)
    for folder in where.of("llm-lite"):
        for target, path, _ in abandoned(folder):
            size = usage(path)[1] if path.is_dir() else path.lstat().st_size
            found.append(Leftover("unfinished folder", path, size, target))
    for file in where.of("imported"):
        found += _forgotten(file)
    return found


def collect(found: Collection[Leftover], places: Places | None = None) -> int:
    """Delete what is left over and return the bytes that were freed. FileError for what cannot be
    deleted, last of all."""
    where = machine_places() if places is None else places
    freed, problems = 0, []
    for one in found:
        try:
            freed += _delete(one)
        except FileError as error:
            problems.append(error)
    gone = {one.path for one in found if one.kind == "imported path that is gone"}
    for file in where.of("imported"):
        if gone:
            imported.change(file, lambda paths: [path for path in paths if path not in gone])
    if problems:
        raise problems[0]
    return freed


def _delete(one: Leftover) -> int:
    if one.kind == "imported path that is gone":
        return 0
    if one.target is not None:
        was_there = os.path.lexists(one.target)
        tidy(one.target, listed_files)
        brought_back = not was_there and os.path.lexists(one.target)
        return 0 if brought_back or os.path.lexists(one.path) else one.size
    with _lock(one.path) as free:
        if not free or (one.kind == "unused blob" and _is_linked(one.path)):
            return 0  # its download goes on, or came to its end meanwhile
        return remove_file(one.path)


def _is_linked(blob: Path) -> bool:
    try:
        linked = _linked(blob.parents[1])
    except OSError:
        return True
    return linked is None or blob.name in linked


def _of_cache(folder: Path, keep: Collection[str]) -> Iterator[Leftover]:
    try:
        repositories = huggingface.repositories(folder)
    except OSError:  # listed as what it is
        return
    for repository in repositories:
        if repository.is_symlink():
            continue
        try:
            wanted = huggingface.repo_of(repository).lower() in keep
            yield from _of_repository(repository, wanted=wanted)
        except OSError:
            continue


def _of_repository(repository: Path, *, wanted: bool) -> Iterator[Leftover]:
    blobs = repository / "blobs"
    if not blobs.is_dir() or blobs.is_symlink():
        return
    linked = _linked(repository)
    for path in sorted(blobs.iterdir()):
        if path.is_symlink() or not path.is_file() or _is_locked(path):
            continue
        if _PARTIAL.fullmatch(path.name) and not wanted:
            yield Leftover("partial download", path, path.stat().st_size)
        elif _BLOB.fullmatch(path.name) and linked is not None and path.name not in linked:
            yield Leftover("unused blob", path, path.stat().st_size)


def _linked(repository: Path) -> set[str] | None:
    """Return the blobs that snapshots link to; None if there are too many links to say. OSError if
    one of its folders cannot be read."""
    found: set[str] = set()
    count = 0
    for folder, folders, names in os.walk(repository / "snapshots", onerror=_reraise):
        for name in (*folders, *names):
            count += 1
            if count > _MOST_LINKS:
                return None
            path = Path(folder) / name
            if path.is_symlink():
                found.add(path.readlink().name)
    return found


def _reraise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_locked(path: Path) -> bool:
    with _lock(path) as free:
        return not free


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Yield True while the lock of a blob is held, which huggingface_hub takes to write it; False
    if another process has it."""
    from filelock import FileLock, Timeout

    digest = path.name.partition(".")[0]
    lock = path.parents[2] / ".locks" / path.parents[1].name / f"{digest}.lock"
    if not lock.exists():
        yield True
        return
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except (Timeout, OSError, NotImplementedError):  # also a folder that is read only
        yield False
        return
    try:
        yield True
    finally:
        held.release()


def _forgotten(file: Path) -> Iterator[Leftover]:
    try:
        paths = imported.read(file)
    except FileError:
        return
    for path in paths:
        if not os.path.lexists(path):
            yield Leftover("imported path that is gone", path, 0)
