"""Pulls a model of a hub into the Hugging Face cache, where huggingface_hub and others find it too.

Layout: blobs/DIGEST holds a file, snapshots/COMMIT/PATH leads to it, refs/NAME says a commit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from llm_lite.core.errors import CancelledError, FileError, LlmLiteError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.writing import make_folder, reason, replaced, write_file
from llm_lite.core.hub.local.resolving import on_a_hub
from llm_lite.core.hub.remote.access import Hub, Stop, hub_of_environment, library, never
from llm_lite.core.hub.remote.choosing import chosen
from llm_lite.core.hub.remote.failures import HubError, HubOfflineError, HubUnreachableError
from llm_lite.core.hub.remote.files import RemoteFile
from llm_lite.core.hub.remote.progress import Meter, OnProgress, PullProgress
from llm_lite.core.hub.remote.repositories import read_or_suggest
from llm_lite.core.hub.remote.transfer import MOST_BYTES, Source, fetch, partial_of
from llm_lite.core.messages.library import HubFile
from llm_lite.core.plain_text import quote

_SPARE = 32 << 20  # bytes of the disk that stay free
_LOCK_TRY = 0.2  # seconds
_COMMIT_BYTES = 256
_PIECE = 1 << 20  # bytes copied at once


def _silent(progress: PullProgress) -> None:
    pass


def pull(
    repo: str,
    file: str = "",
    revision: str = "",
    on_progress: OnProgress = _silent,
    stop: Stop = never,
) -> Path:
    """Fetch a model and return what a load takes: the GGUF file, or the directory of the
    checkpoint, in the cache.

    file: a path in the repository, a format ("Q4_K_M") or a part that one file alone has; "": the
    one that is recommended. revision: a branch or commit; its commit is requested once, so that all
    files are of one. HubError, FileError, CancelledError when `stop` says so; what was fetched
    stays, and the next pull goes on with it.
    """
    hub = hub_of_environment()
    try:
        found = read_or_suggest(hub, repo, revision, stop)
    except (HubOfflineError, HubUnreachableError) as error:
        here = _here_already(repo, file, revision)
        if here is None:
            raise
        on_progress(PullProgress(here.name, 0, 0, 0, 0, note=f"what is here is used: {error}"))
        return here
    choice = chosen(found, file)
    files = {one.path: one for one in found.files}
    wanted = [files[part] for part in choice.parts]
    store = _Store(hub, found.repo, found.commit, stop)
    store.check(wanted)
    meter = Meter(sum(one.size for one in wanted), on_progress)
    with (
        contextlib.ExitStack() as locks
    ):  # kept to the end: nobody tidies up what is not placed yet
        for one in wanted:
            store.bring(one, meter, locks)
        to_place = list(wanted)
        while to_place:  # the weights last: a snapshot is whole or not there
            one = to_place.pop()
            store.place(one, shared=any(one.digest == other.digest for other in to_place))
    store.name(revision or "main")
    meter.finished()
    first = store.pointer(files[choice.name])
    return first if choice.form == "gguf" else first.parent


def located(repo: str, file: str = "", revision: str = "") -> tuple[str, HubFile | None]:
    """Return the repository as the hub calls it, and the file that a pull would take. The file is
    None if the hub cannot be reached and an earlier pull left what is meant; otherwise raises as
    `pull` does."""
    hub = hub_of_environment()
    try:
        found = read_or_suggest(hub, repo, revision, never)
    except (HubOfflineError, HubUnreachableError):
        if _here_already(repo, file, revision) is None:
            raise
        return repo, None
    return found.repo, chosen(found, file)


def _here_already(repo: str, file: str, revision: str) -> Path | None:
    """Return what an earlier pull fetched, for a hub that cannot be reached."""
    try:
        model = on_a_hub(f"{repo}:{file}" if file else repo)
    except LlmLiteError:
        return None
    return model.path if revision in ("", model.revision) else None


class _Store:
    """A repository's folder in the cache."""

    def __init__(self, hub: Hub, repo: str, commit: str, stop: Stop) -> None:
        self._hub, self._repo, self._commit, self._stop = hub, repo, commit, stop
        name = "--".join(["models", *repo.split("/")])
        self._folder = hub.cache / name
        self._locks = hub.cache / ".locks" / name
        self._locked: set[str] = set()  # digests

    def _blob(self, file: RemoteFile) -> Path:
        return self._folder / "blobs" / file.digest

    def pointer(self, file: RemoteFile) -> Path:
        return self._folder / "snapshots" / self._commit / file.path

    def check(self, files: Sequence[RemoteFile]) -> None:
        """Check before the first byte that the disk has room."""
        for file in files:
            if file.size > MOST_BYTES:
                raise HubError(
                    f"{quote(file.path)} has {file.size / 1e9:,.0f} GB, expected at most "
                    f"{MOST_BYTES / 1e9:.0f} in one file: hubs send larger ones by another protocol"
                )
        needed = sum(self._missing(file) for file in files)
        if needed == 0:
            return
        make_folder(self._folder / "blobs")
        make_folder(self._locks)
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:
            return  # a system that does not report it; a full disk is reported when it is met
        if needed + _SPARE > free:
            raise FileError(
                self._hub.cache,
                f"there is not enough room: {needed / 1e6:,.1f} MB are to come and "
                f"{free / 1e6:,.1f} MB are free",
            )

    def _missing(self, file: RemoteFile) -> int:
        blob = self._blob(file)
        with contextlib.suppress(OSError):
            if self.pointer(file).exists() or blob.exists():
                return 0
            return max(0, file.size - partial_of(blob).stat().st_size)
        return file.size

    def bring(self, file: RemoteFile, meter: Meter, locks: contextlib.ExitStack) -> None:
        """Fetch the file as a blob, if it is not here yet. Two pulls lock files in the same
        order."""
        meter.begin(file.path, file.size)
        blob = self._blob(file)
        if not _whole(self.pointer(file), file):
            make_folder(blob.parent)
            make_folder(self._locks)
            self._lock(file, meter, locks)
            if not _whole(blob, file):
                source = Source(self._hub, self._repo, self._commit, file)
                fetch(source, blob, meter, self._stop)
        meter.end()

    def place(self, file: RemoteFile, *, shared: bool) -> None:
        """Put the file in its snapshot. shared: its blob is needed for another one after it."""
        pointer = self.pointer(file)
        if not _whole(pointer, file):
            _link(self._blob(file), pointer, shared)
        if not _whole(pointer, file):
            raise FileError(
                pointer, "was removed by another program while it was fetched: pull it again"
            )

    def _lock(self, file: RemoteFile, meter: Meter, locks: contextlib.ExitStack) -> None:
        """Take the lock that huggingface_hub itself takes for this file; for two equal files,
        once."""
        from filelock import Timeout

        if file.digest in self._locked:
            return
        path = self._locks / f"{file.digest}.lock"
        while True:
            try:
                locks.enter_context(library().utils.WeakFileLock(path, timeout=_LOCK_TRY))
                self._locked.add(file.digest)
                return
            except Timeout:
                meter.note("waits for another process that fetches the same file")
                if self._stop():
                    raise CancelledError("stopped") from None
            except OSError as error:
                raise FileError(path, f"cannot be locked: {reason(error)}") from None

    def name(self, revision: str) -> None:
        """Record the commit of a branch when it was fetched: huggingface_hub looks it up when
        offline."""
        if revision == self._commit:
            return
        path = self._folder / "refs" / revision
        with contextlib.suppress(FileError):
            if read_bytes(path, _COMMIT_BYTES).decode("ascii", "replace") == self._commit:
                return
        make_folder(path.parent)
        write_file(path, self._commit.encode())


def _whole(path: Path, file: RemoteFile) -> bool:
    try:
        return path.stat().st_size == file.size
    except OSError:
        return False


def _link(blob: Path, pointer: Path, shared: bool) -> None:
    """Link a blob, by a relative link so that a cache may be moved; where links cannot be made, the
    file is moved there, or a copy of it where another needs it too."""
    make_folder(pointer.parent)
    try:
        if os.path.lexists(pointer):
            pointer.unlink()
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except (OSError, NotImplementedError):
            if shared:
                with blob.open("rb") as source, replaced(pointer) as copy:
                    shutil.copyfileobj(source, copy, _PIECE)
            else:
                blob.replace(pointer)
    except OSError as error:
        raise FileError(pointer, f"cannot be made: {reason(error)}") from None
