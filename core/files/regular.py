"""Opening files that have to be files: a FIFO or a device in the place of one could block for ever,
or never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from llm_lite.core.errors import FileError
from llm_lite.core.files.private import OTHERS, tighten

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path, *, private: bool = False) -> BinaryIO:
    """Open a regular file for reading, without waiting; one that is `private` is taken from others
    by that, unless a link leads to it. FileError if it is not there, not a regular file or cannot
    be read."""
    try:
        number = os.open(path, _FLAGS | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        raise FileError(path, "no such file") from error
    except (OSError, ValueError) as error:  # a null character in the name
        raise unreadable(path, error) from error
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            what = "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file"
            raise FileError(path, f"cannot be read: {what}")
        if private and mode & OTHERS and not path.is_symlink():
            tighten(number)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def unreadable(path: Path, error: Exception) -> FileError:
    return FileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")
