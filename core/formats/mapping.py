"""A file mapped into memory, read-only."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import FileError


def map_file(file: Path, expected: str) -> mmap.mmap:
    """The whole of a regular, non-empty file; unmapped when the last array over it is gone.

    `expected` says what it should be ("a GGUF file"). Raises FileError.
    """
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise FileError(file, f"is a directory, expected {expected}")
        if not stat.S_ISREG(status.st_mode):
            raise FileError(file, f"is not a regular file, expected {expected}")
        if status.st_size == 0:
            raise FileError(file, f"is empty, expected {expected}")
        with file.open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise FileError(file, "no such file") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FileError(file, f"cannot be read: {reason}") from error
    except ValueError as error:  # a null character in the path; a file emptied under our hands
        raise FileError(file, f"cannot be read: {error}") from error


def let_go(data: NDArray[np.generic]) -> None:
    """Take the pages of a mapped file under an array out of this process's memory until they are
    read again.

    For what is read once: a file that is larger than memory then never fills it.
    """
    base: object = data
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = np.frombuffer(base, np.uint8).ctypes.data
        begin = data.ctypes.data - start
        first = begin // mmap.PAGESIZE * mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, first, begin + data.nbytes - first)
