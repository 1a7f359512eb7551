"""The check that the files of a model from a hub are still the hub's, byte for byte."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from llm_lite.core.errors import CancelledError, FileError
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.remote.access import Stop, hub_of_environment, never
from llm_lite.core.hub.remote.repositories import read_repository
from llm_lite.core.messages.library import LocalModel

_SHA256, _GIT = 64, 40  # hexadecimal digits
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PIECE = 1 << 20

Progress = Callable[[float], None]  # the part done, 0..1


class HashVerdict(Struct):
    """The result of a check. `findings`: sentences on what is wrong. `notes`: what nothing could be
    compared with."""

    compared: int = 0  # files
    nbytes: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(
    model: LocalModel,
    *,
    online: bool = False,
    progress: Progress = lambda part: None,
    stop: Stop = never,
) -> HashVerdict:
    """Compare files with their names in the cache, or with what the hub has now for their
    commit."""
    verdict = HashVerdict()
    known = _of_hub(model, stop) if online else {}
    paths = _paths(model)
    total, done = sum(_size(path) for path in paths), 0
    for path in paths:
        expected = known.get(_name_in_snapshot(path)) if online else _blob_digest(path)
        if expected is None:
            verdict.notes.append(f"{path}: nothing is known to compare it with")
        else:

            def report(count: int, before: int = done) -> None:
                progress(min(1.0, (before + count) / max(1, total)))

            _compare(path, expected, verdict, report, stop)
        done += _size(path)
    return verdict


def from_hub(model: LocalModel) -> bool:
    """Return True if the model's files are in a cache of a hub."""
    return bool(model.repo) and any(_blob_digest(path) is not None for path in _paths(model))


def _paths(model: LocalModel) -> list[Path]:
    """Return the model's files by their names in the repository, not the blobs that they lead
    to."""
    if not model.path.is_dir():
        return [model.path]
    try:
        return sorted(path for path in model.path.iterdir() if not path.is_dir())
    except OSError as error:
        raise FileError(model.path, f"cannot be read: {reason(error)}") from None


def _of_hub(model: LocalModel, stop: Stop) -> Mapping[str, str]:
    found = read_repository(hub_of_environment(), model.repo, model.revision, stop)
    return {file.path: file.digest for file in found.files}


def _name_in_snapshot(path: Path) -> str:
    """Return the path in the repository; a file's own name if it is in no snapshot."""
    parts = path.parts
    for place in range(len(parts) - 3, -1, -1):
        if parts[place] == "snapshots":
            return "/".join(parts[place + 2 :])
    return path.name


def _blob_digest(path: Path) -> str | None:
    name = path.resolve().name
    return name if _DIGEST.fullmatch(name) else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _compare(
    path: Path,
    expected: str,
    verdict: HashVerdict,
    report: Callable[[int], None],
    stop: Stop,
) -> None:
    try:
        found = _digest(path, expected, report, stop)
    except OSError as error:
        verdict.findings.append(f"{path}: cannot be read: {reason(error)}")
        return
    verdict.compared += 1
    verdict.nbytes += _size(path)
    if found != expected:
        kind = "SHA-256" if len(expected) == _SHA256 else "Git SHA-1"
        verdict.findings.append(
            f"{path}: is not the hub's file: its {kind} is {found}, expected {expected}; remove it "
            "and pull it again"
        )


def _digest(path: Path, expected: str, report: Callable[[int], None], stop: Stop) -> str:
    made: Any = hashlib.sha256()
    if len(expected) == _GIT:
        made = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            made.update(piece)
            report(file.tell())
            if stop():
                raise CancelledError("stopped")
    return str(made.hexdigest())
