"""Pointers of Git LFS: the few lines that a clone without it has in the place of a large file.

Format: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
"""

from __future__ import annotations

import re
from pathlib import Path

from llm_lite.core.errors import FileError

_BEGIN = b"version https://git-lfs.github.com/spec/"
POINTER_BYTES = 1024  # that a pointer has at most
_SIZE = re.compile(rb"^size ([0-9]{1,18})$", re.MULTILINE)


def refuse_pointer(path: Path, begin: bytes, size: int) -> None:
    """Raise FileError if a file of `size` bytes, which begins like this, is a pointer."""
    if size > POINTER_BYTES or not begin.startswith(_BEGIN):
        return
    found = _SIZE.search(begin)
    whole = f" of {int(found[1]) / 1e9:.2f} GB" if found else ""
    raise FileError(
        path,
        f"is a pointer of Git LFS in the place of a file{whole}, which was never fetched: "
        "run `git lfs pull` in its folder, or fetch the model with `llm-lite models pull`",
    )
