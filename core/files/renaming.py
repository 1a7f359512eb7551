"""Renames that the standard library lacks: of two names for each other, and without replacing."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_UNKNOWN = (errno.ENOSYS, errno.EINVAL)  # to this kernel, or to this file system


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files or directories in one step, and return whether the system
    could."""
    return _renameat2(one, other, _EXCHANGE) == 0


def rename_new(old: Path, new: Path) -> None:
    """Rename as os.rename does, but raise FileExistsError if `new` exists, be it an empty directory
    or a link.

    If the system cannot do both in one step, another program may come between.
    """
    number = _renameat2(old, new, _NOREPLACE)
    if number in _UNKNOWN:
        number = errno.EEXIST if os.path.lexists(new) else 0
        if not number:
            old.rename(new)
    if number:
        raise OSError(number, os.strerror(number), str(old), None, str(new))


def rename_free(old: Path, wanted: Path) -> Path:
    """Rename to `wanted`, or with a number behind it if that is taken, and return the new path.
    OSError."""
    number, new = 1, wanted
    while True:
        try:
            rename_new(old, new)
        except FileExistsError:
            number += 1
            new = wanted.with_name(f"{wanted.name}-{number}")
        else:
            return new


def _renameat2(old: Path, new: Path, flag: int) -> int:
    """Call renameat2(2) and return 0, or the number of the error."""
    if not sys.platform.startswith("linux"):
        return errno.ENOSYS
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return errno.ENOSYS
    names = os.fsencode(old), os.fsencode(new)
    return 0 if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag) == 0 else ctypes.get_errno()
