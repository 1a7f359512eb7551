"""The record of files that were found sound before: their weights are not read again when they are
opened.

Reading 4 GB to check them takes longer than all else of opening them. A file counts as the same
while its path, size, inode and time of writing are; one of the last seconds may yet change within
the clock's step and is not written down. `llm-lite verify` reads all, whatever is known.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.loading.verification import Part, verify

_LAYOUT = 1
_MOST = 1000  # sets of parts
_SETTLED = 2.0  # seconds since a file was written; some file systems count in twos


def verify_once(parts: Collection[Part], *, release: bool) -> Iterator[FileError | None]:
    """Verify as `verify` does, or yield nothing if these parts were sound before and their files
    are the same."""
    stamp = _stamp(parts)
    if stamp in _known():
        return
    sound = True
    for problem in verify(parts, release=release):
        sound = sound and problem is None
        yield problem
    if sound and stamp and _are_settled(parts) and stamp == _stamp(parts):
        _keep(stamp)


def _place() -> Path:
    return user_folder("cache") / "sound-weights.json"


def _are_settled(parts: Collection[Part]) -> bool:
    try:
        newest = max((part.path.stat().st_mtime for part in parts), default=0.0)
    except OSError:
        return False
    return newest < time.time() - _SETTLED


def _stamp(parts: Collection[Part]) -> str:
    """Return a hash that changes with the files and the parts; "" if a file cannot be read."""
    digest = hashlib.sha256(f"{_LAYOUT}\n".encode())
    for path in sorted({part.path for part in parts}):
        try:
            status = path.stat()
        except OSError:
            return ""
        written = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        digest.update(f"{path.absolute()}\0{written}\n".encode(errors="surrogateescape"))
    for name in sorted(f"{part.name}\0{part.checksum}" for part in parts):
        digest.update(name.encode(errors="replace") + b"\n")
    return digest.hexdigest()


def _known() -> list[str]:
    """Return the known stamps, the oldest first; a record that cannot be read is none."""
    try:
        sound = read_object(_place()).get("sound")
    except LlmLiteError:
        return []
    return [stamp for stamp in sound if isinstance(stamp, str)] if isinstance(sound, list) else []


def _keep(stamp: str) -> None:
    """Record a sound stamp; if it cannot be written, the next opening reads the weights again."""
    kept = [*_known(), stamp][-_MOST:]
    try:
        make_folder(_place().parent)
        write_file(_place(), json.dumps({"sound": kept}).encode(), private=True)
    except (LlmLiteError, OSError):
        return
