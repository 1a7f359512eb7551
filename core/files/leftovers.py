"""Names for unfinished files, beside the place that they are for, and the ones that killed
processes left.

`.NAME.PID-COUNT.KIND`: the process says whether it is still in use. A process in another
container that writes to the same folder cannot be seen, and is taken for one that has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

# part: being made. old: stepped aside while a new one takes its place. gone: being removed.
Kind = Literal["part", "old", "gone"]

_LONGEST = 200  # bytes of a name that still has room for ours around it
_ANY = re.compile(r"\.(.+)\.([0-9]{1,10})(?:-[0-9]+)?\.(\w+)")
_COUNT = itertools.count(1)
_in_use: set[Path] = set()  # by this process; what a thread has not finished goes when it ends


def name_beside(target: Path, kind: Kind) -> Path:
    """Return a path in the target's folder that no other writer uses."""
    return _folder(target) / f".{_stem(target)}.{os.getpid()}-{next(_COUNT)}.{kind}"


@contextmanager
def temporary(target: Path, remove: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a name beside `target`; what has it in the end, or when the process ends, is
    removed."""
    path = name_beside(target, "part")
    _in_use.add(path)
    try:
        yield path
    finally:
        (remove or remove_whole)(path)
        _in_use.discard(path)


def leftovers(target: Path) -> list[tuple[Path, str]]:
    """Return path and kind of what ended processes left of their work on `target`."""
    pattern = re.compile(re.escape(f".{_stem(target)}.") + r"([0-9]{1,10})(?:-[0-9]+)?\.(\w+)")
    found = []
    with contextlib.suppress(OSError):  # a folder that may not be listed
        for path in _folder(target).iterdir():
            match = pattern.fullmatch(path.name)
            if match and match[2] in get_args(Kind) and not _is_used(path, int(match[1])):
                found.append((path, match[2]))
    return found


def abandoned(folder: Path) -> list[tuple[Path, Path, str]]:
    """Return what ended processes left of their work on anything in a folder: target, path and
    kind. Names too long to hold the target's are left out."""
    found = []
    with contextlib.suppress(OSError):
        for path in _real(folder).iterdir():
            match = _ANY.fullmatch(path.name)
            if match and match[3] in get_args(Kind) and not _is_used(path, int(match[2])):
                found.append((path.with_name(match[1]), path, match[3]))
    return found


def remove_whole(path: Path) -> None:
    """Remove a file, or a directory and all in it; it stays if that is not possible."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _folder(target: Path) -> Path:
    """Return the folder in one spelling, since our names are compared."""
    return _real(target.parent)


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _stem(target: Path) -> str:
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST:
        return target.name
    import hashlib  # late, as hardly anybody needs it

    return hashlib.sha256(name).hexdigest()


def _is_used(path: Path, process: int) -> bool:
    return path in _in_use if process == os.getpid() else _runs(process)


def _runs(process: int) -> bool:
    import psutil  # late, as there is rarely anything left over

    try:
        return bool(psutil.pid_exists(process))
    except (OSError, OverflowError):
        return True


@atexit.register
def _at_exit() -> None:
    """Remove what threads that do not keep the process alive left unfinished; a forked process
    leaves its parent's alone."""
    for path in list(_in_use):
        if f".{os.getpid()}-" in path.name:
            remove_whole(path)
