"""Keeps a person's own for them alone: conversations, drafts, keys, and folders of nothing else.

`writing.replaced` and `write_file` write it with `private`, `regular.open_regular` reads it so:
what an older version, or another program, left readable for others becomes private then.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from llm_lite.core.errors import FileError

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077


def tighten(place: int | Path) -> None:
    """Take a file or folder from all others, if it is this user's; by a descriptor, or a path that
    is no link."""
    with suppress(OSError):
        status = os.fstat(place) if isinstance(place, int) else place.lstat()
        own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if own and not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS:
            os.chmod(place, stat.S_IMODE(status.st_mode) & ~OTHERS)  # noqa: PTH101 - or a number


def private_folder(path: Path, *, shared: bool = False) -> None:
    """Make the directory and those above it, as far as they are missing, for this user alone. One
    that is there becomes private, but for one that holds other things, too (`shared`).
    FileError."""
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir(FOLDER, exist_ok=True)
        if not path.is_dir():
            raise NotADirectoryError
    except (FileExistsError, NotADirectoryError):
        raise FileError(
            path, "cannot be made: there is a file where a directory is to be"
        ) from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise FileError(path, f"cannot be made: {words}") from None
    if not shared:
        tighten(path)
