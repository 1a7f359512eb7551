"""Transfers one file of a hub to the disk, from its beginning or where an earlier transfer ended,
and always checks it.

huggingface_hub's own download throws away what it has when it is interrupted, and writes as much as
a server sends; so the bytes are written here, over its client, into the partial file that its older
versions used and that its cache tools know: `blobs/DIGEST.incomplete`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from llm_lite.core.errors import CancelledError, FileError
from llm_lite.core.files.writing import reason
from llm_lite.core.hub.remote.access import (
    Hub,
    Stop,
    headers,
    library,
    pause_after,
    sleep,
    status_error,
    translated,
)
from llm_lite.core.hub.remote.failures import HubError, HubStatusError, HubUnreachableError
from llm_lite.core.hub.remote.files import RemoteFile
from llm_lite.core.hub.remote.progress import Meter
from llm_lite.core.plain_text import quote

if TYPE_CHECKING:
    import httpx2

_PIECE = 1 << 20  # bytes read at once
_FIRST_WAIT, _LONGEST_PAUSE = 1.0, 8.0  # seconds before a further try
_TRIES = 5  # without a byte more
_NO_SPACE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "this user may not use more of the disk",
    errno.EFBIG: "files may not be as large here",
}
# A file over this is served in parts by another protocol only.
MOST_BYTES = 50_000_000_000


class Source(Struct, frozen=True):
    """The origin of a file: its hub, repository and commit."""

    hub: Hub
    repo: str
    commit: str
    file: RemoteFile

    @property
    def url(self) -> str:
        made: str = library().hf_hub_url(
            self.repo, self.file.path, revision=self.commit, endpoint=self.hub.endpoint
        )
        return made

    @property
    def name(self) -> str:
        return f"{self.repo}: {quote(self.file.path)}"


def partial_of(blob: Path) -> Path:
    return blob.with_name(f"{blob.name}.incomplete")


def fetch(source: Source, blob: Path, meter: Meter, stop: Stop) -> None:
    """Fetch a file to `blob` and compare its hash. HubError, FileError, CancelledError; what was
    fetched so far stays for the next time, unless its hash is wrong."""
    partial = partial_of(blob)
    with _no_empty_file(partial):
        _fetch(source, blob, partial, meter, stop)


@contextlib.contextmanager
def _no_empty_file(partial: Path) -> Iterator[None]:
    """Remove the partial file if not a byte came, as for a gated file."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if partial.lstat().st_size == 0:
                partial.unlink()


def _fetch(source: Source, blob: Path, partial: Path, meter: Meter, stop: Stop) -> None:
    try:
        if partial.is_symlink():  # what it leads to is none of ours
            raise FileError(partial, f"is a link to {partial.readlink()}, expected a file")
        with partial.open("ab+", buffering=0) as file:
            digest = _Writer(source, file, meter, stop)
            digest.take_what_is_there()
            _complete(source, digest, meter, stop)
            os.fsync(file.fileno())
            wrong = digest.mismatch()
        if wrong:
            partial.unlink(missing_ok=True)
            raise HubError(wrong)
        partial.replace(blob)
    except OSError as error:
        raise _unwritable(source, partial, error) from None


def _unwritable(source: Source, partial: Path, error: OSError) -> FileError:
    words = _NO_SPACE.get(error.errno or 0)
    if words is not None:
        size = partial.stat().st_size if partial.exists() else 0
        return FileError(
            partial.parent,
            f"{words}: {size / 1e6:,.1f} of {source.file.size / 1e6:,.1f} MB of "
            f"{source.name} are kept, and the next pull goes on from there",
        )
    return FileError(partial.parent, f"{source.name} cannot be written: {reason(error)}")


class _Writer:
    """The partial file with the hash of what is in it."""

    def __init__(self, source: Source, file: BinaryIO, meter: Meter, stop: Stop) -> None:
        self._source, self._file, self._meter, self._stop = source, file, meter, stop
        self.size = 0
        self.was_packed = False  # what came last was, so that the whole is asked for again
        self._hash = self._new_hash()

    def _new_hash(self) -> Any:
        if self._source.file.sha256:
            return hashlib.sha256()
        return hashlib.sha1(f"blob {self._source.file.size}\0".encode(), usedforsecurity=False)

    def take_what_is_there(self) -> None:
        """Hash what an earlier pull left; what is longer than the file can be none of it."""
        self._file.seek(0, os.SEEK_END)
        if self._file.tell() > self._source.file.size:
            self.restart()
            return
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            self._hash.update(piece)
            self.size += len(piece)
            self._meter.there(self.size)
            if self._stop():
                raise CancelledError("stopped")

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._hash, self.size = self._new_hash(), 0
        self._meter.there(0)

    def write(self, piece: bytes) -> None:
        if self.size + len(piece) > self._source.file.size:
            raise HubError(
                f"{self._source.name}: the hub sends more than the {self._source.file.size:,} "
                "bytes that it tells of"
            )
        view = memoryview(piece)
        while view:  # a raw file may take less at once
            count = self._file.write(view)
            self._hash.update(view[:count])
            self.size += count
            view = view[count:]
        self._meter.received(len(piece))

    def mismatch(self) -> str:
        """Return a sentence with both hashes; "" if they are the same."""
        expected, found = self._source.file.digest, self._hash.hexdigest()
        if found == expected:
            return ""
        kind = "SHA-256" if self._source.file.sha256 else "Git SHA-1"
        return (
            f"{self._source.name}: what came is not the hub's file and was removed: its {kind} is "
            f"{found}, expected {expected}"
        )


def _complete(source: Source, writer: _Writer, meter: Meter, stop: Stop) -> None:
    """Request the file until it is complete; fails after a few requests in vain in a row."""
    tries, wait = 0, _FIRST_WAIT
    while writer.size < source.file.size:
        before = writer.size
        try:
            translated(
                source.hub,
                lambda: _request(source, writer, stop),
                repo=source.repo,
                file=source.file.path,
            )
            failure: HubError = _ended(source, writer, "")
        except (HubStatusError, HubUnreachableError) as error:
            failure = error
            if isinstance(error, HubStatusError) and error.code == "RevisionNotFound":
                raise HubError(
                    f"{source.repo} was changed at the hub while it was fetched: commit "
                    f"{source.commit[:12]} is gone; pull it again"
                ) from None
        if stop():
            raise CancelledError("stopped")
        if writer.size == source.file.size:
            return
        if writer.size > before:
            tries, wait = 0, _FIRST_WAIT
        tries += 1
        pause = pause_after(failure, wait)
        if tries > _TRIES or pause is None:
            raise failure
        if writer.size == before:
            meter.note(f"tries again in {pause:.0f} s: {str(failure).partition(';')[0]}")
        sleep(pause, stop)
        wait = min(_LONGEST_PAUSE, wait * 2)


def _ended(source: Source, writer: _Writer, why: str) -> HubUnreachableError:
    return HubUnreachableError(
        f"{source.name}: the connection ended after {writer.size:,} of {source.file.size:,} bytes"
        f"{f' ({quote(why)})' if why else ''}; the next pull goes on from there"
    )


def _request(source: Source, writer: _Writer, stop: Stop) -> None:
    """Write one answer of the hub, as far as it goes."""
    import httpx2

    from llm_lite.core.hub.remote.client import STREAMED

    asked = headers()
    if writer.size and not writer.was_packed:
        asked["Range"] = f"bytes={writer.size}-"
    timeout = httpx2.Timeout(source.hub.timeout).as_dict()
    session = library().utils.get_session()
    with session.stream(
        "GET", source.url, headers=asked, extensions={STREAMED: True, "timeout": timeout}
    ) as answer:
        if not answer.is_success:
            raise status_error(source.hub, answer, repo=source.repo, file=source.file.path)
        if writer.size and answer.status_code == 200:  # it knows no ranges
            writer.restart()
        packed = answer.headers.get("Content-Encoding", "identity").lower() != "identity"
        if packed:  # unasked: with a part of such bytes nobody could go on
            writer.was_packed = True
            writer.restart()
        else:
            _check_length(source, writer, answer)
        with _ended_by(stop, answer):
            try:
                for piece in answer.iter_bytes() if packed else answer.iter_raw():
                    writer.write(piece)
                    if stop():
                        raise CancelledError("stopped")
            except httpx2.TransportError as error:
                raise _ended(source, writer, str(error) or type(error).__name__) from None
            except httpx2.DecodingError as error:  # another try would bring the same
                kind = quote(answer.headers.get("Content-Encoding", ""))
                raise HubError(
                    f"{source.name}: the hub says that it packs the file as {kind}, and it does "
                    f"not unpack: {quote(str(error))}"
                ) from None
        if packed and writer.size < source.file.size:
            raise HubError(
                f"{source.name}: the hub sends {writer.size:,} bytes, packed, expected the "
                f"{source.file.size:,} that it tells of"
            )


def _check_length(source: Source, writer: _Writer, answer: httpx2.Response) -> None:
    length = answer.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and writer.size + int(length[:18]) != source.file.size:
        raise HubError(
            f"{source.name}: the hub sends {writer.size + int(length[:18]):,} bytes, expected the "
            f"{source.file.size:,} that it tells of"
        )
    begin = answer.headers.get("Content-Range", f"bytes {writer.size}-")
    if answer.status_code == 206 and not begin.startswith(f"bytes {writer.size}-"):
        raise HubError(
            f"{source.name}: the hub sends {quote(begin)}, expected bytes from {writer.size:,} on"
        )


@contextlib.contextmanager
def _ended_by(stop: Stop, answer: httpx2.Response) -> Iterator[None]:
    """End a wait for bytes when `stop` returns True, before the time limit is over."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if stop():
                stream = answer.extensions.get("network_stream")
                line = stream.get_extra_info("socket") if stream is not None else None
                if isinstance(line, socket.socket):
                    with contextlib.suppress(OSError):
                        line.shutdown(socket.SHUT_RDWR)
                return

    thread = threading.Thread(target=watch, name="pull-stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
