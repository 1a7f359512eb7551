"""Files mapped into memory, read-only, and whether they still are what was mapped.

Other programs may cut a file short or write into it while it is mapped. A read of pages that
are gone finds zeros (kernels_cpp/base/mapped_files.h), so nothing ends there; what was made of
them must not be used, and `MappedFiles` says so.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from llm_lite_kernels import _cpp
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError, FileChangedError, FileError
from llm_lite.core.files.git_lfs import POINTER_BYTES, refuse_pointer

# Else a mapping opens the file once more.
_OPTIONS: dict[str, Any] = (
    {"trackfd": False} if sys.version_info >= (3, 13) and sys.platform != "win32" else {}
)


class MappedFile(mmap.mmap):
    """The whole of a regular file; unmapped when the last array over it is gone, never closed.

    `file` is a descriptor, which becomes this object's own. `advice` says what a person does about
    a change. Raises OSError, ValueError for an empty file, RuntimeError for one too many.
    """

    path: Path
    _file: int
    _advice: str
    _size: int  # bytes
    _written: int  # nanoseconds
    _problem: str
    _guard: _cpp.MappingGuard | None = None

    def __new__(cls, path: Path, file: int, advice: str) -> Self:
        try:
            status = os.fstat(file)
            self = super().__new__(cls, file, status.st_size, access=mmap.ACCESS_READ, **_OPTIONS)
        except BaseException:
            os.close(file)
            raise
        self.path, self._file, self._advice = path, file, advice
        self._size, self._written = status.st_size, status.st_mtime_ns
        self._problem = ""
        self._guard = _cpp.MappingGuard(self)
        return self

    def __del__(self) -> None:
        """Release the guard before the pages are unmapped: a new mapping may get their
        addresses."""
        if self._guard is not None:
            self._guard.release()
        if hasattr(self, "_file"):
            os.close(self._file)

    @property
    def reopened(self) -> str:
        """Return a path for libraries that open files by one: of this very file where the system
        has such paths, since another may have taken its name."""
        number = Path(f"/dev/fd/{self._file}")
        return str(number if number.exists() else self.path)

    def check(self) -> None:
        """Raise FileChangedError from the first change on: another size, written to, or lost pages.

        The check is of the file that is mapped, whatever its path leads to by now: to delete or to
        replace it changes nothing. A new time of writing is a change, even with the same bytes
        (`touch`): to compare them would be to read them all.
        """
        self._problem = self._problem or self._change()
        if self._problem:
            raise FileChangedError(self.path, f"{self._problem}; {self._advice}")

    def _change(self) -> str:
        try:
            now = os.fstat(self._file)
        except OSError as error:  # of a network
            return f"could not be read while it was in use: {error.strerror}"
        if now.st_size != self._size:
            return f"changed while it was in use: it had {self._size} bytes, now {now.st_size}"
        if now.st_mtime_ns != self._written:
            return f"changed while it was in use: its {self._size} bytes were written again"
        if self._guard is not None and self._guard.lost:
            return "could not be read while it was in use (was it cut short, does its disk fail?)"
        return ""


class MappedFiles(Struct, frozen=True):
    """Files that something is made of. To check one takes about a microsecond."""

    files: tuple[MappedFile, ...] = ()

    @classmethod
    def under(cls, arrays: Iterable[NDArray[np.generic]]) -> MappedFiles:
        """Return the mapped files that back the arrays; arrays in memory have none."""
        found = {id(file): file for file in map(_file_under, arrays) if file is not None}
        return cls(tuple(found.values()))

    def check(self) -> None:
        """Check every file as `MappedFile.check` does."""
        for file in self.files:
            file.check()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Check the files before and after the block, whose result counts only if they did not
        change. If they did, an error within is replaced by that of the change; a cancellation is
        not."""
        self.check()
        try:
            yield
        except CancelledError:
            raise
        except Exception:
            self.check()
            raise
        self.check()


NO_FILES = MappedFiles()


@contextmanager
def mapped(file: Path, expected: str, advice: str = "load the model again") -> Iterator[MappedFile]:
    """Yield the whole of a regular, non-empty file; an error within is reported as a change of the
    file if it has changed.

    `expected` says what it should be ("a GGUF file"). Raises FileError.
    """
    mapping = _map(file, expected, advice)
    refuse_pointer(file, mapping[:POINTER_BYTES], len(mapping))
    with MappedFiles((mapping,)).unchanged():
        yield mapping


def _map(file: Path, expected: str, advice: str) -> MappedFile:
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise FileError(file, f"is a directory, expected {expected}")
        if not stat.S_ISREG(status.st_mode):
            raise FileError(file, f"is not a regular file, expected {expected}")
        if status.st_size == 0:
            raise FileError(file, f"is empty, expected {expected}")
        with file.open("rb") as stream:
            return MappedFile(file, os.dup(stream.fileno()), advice)
    except FileNotFoundError as error:
        raise FileError(file, "no such file") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FileError(file, f"cannot be read: {reason}") from error
    except (ValueError, RuntimeError) as error:  # a null in the path; emptied under our hands
        raise FileError(file, f"cannot be read: {error}") from error


def drop_pages(data: NDArray[np.generic]) -> None:
    """Take the pages of a mapped file under an array out of this process's memory until they are
    read again.

    For what is read once: a file that is larger than memory then never fills it.
    """
    base = _base(data)
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = np.frombuffer(base, np.uint8).ctypes.data
        begin = data.ctypes.data - start
        first = begin // mmap.PAGESIZE * mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, begin + data.nbytes - first)


def is_mapped(data: NDArray[np.generic]) -> bool:
    """Return True if an array shows a mapped file."""
    return _file_under(data) is not None


def _file_under(data: NDArray[np.generic]) -> MappedFile | None:
    base = _base(data)
    return base if isinstance(base, MappedFile) else None


def _base(data: NDArray[np.generic]) -> object:
    """Return the object that owns an array's memory."""
    base: object = data
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base
