"""The folders of this user: what platformdirs says, or, for a user who has no home, a private
folder that is removed when the program ends."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from llm_lite.core.errors import FileError
from llm_lite.core.plain_text import one_line

# Bytes of a name that is made of words: systems take 255, its ending and what follows it included.
LONGEST_NAME = 200
Kind = Literal["cache", "config", "data", "state", "documents"]


def user_folder(kind: Kind) -> Path:
    """Return an absolute path; only the private folder is made."""
    try:
        found = _found(kind)
    except (RuntimeError, KeyError):  # neither HOME nor an entry in the system's list of users
        return _private() / kind
    return found if found.is_absolute() and "~" not in found.parts else _private() / kind


def expanded(text: str) -> Path:
    """Return `text` as a path with ~ replaced by a home directory. FileError if that is unknown."""
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError):  # ~name of nobody, or of a null character
        raise FileError(text, "no such file: the home directory is unknown") from None


def _found(kind: Kind) -> Path:
    """Return the folder by platformdirs; older versions leave "~" in it without a known home."""
    import platformdirs  # asks the system: not before somebody wants to know

    if kind == "documents":
        return Path(platformdirs.user_documents_dir()) / "llm-lite"
    find = getattr(platformdirs, f"user_{kind}_dir")
    return Path(find("llm-lite", appauthor=False))


@cache
def _private() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="llm-lite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fit_name(name: str, most: int = LONGEST_NAME) -> str:
    """Return a name, or the beginning of it that has at most `most` bytes, in whole characters."""
    return name.encode(errors="replace")[:most].decode(errors="ignore").strip(" .")


def plain_name(name: str, longest: int, otherwise: str) -> str:
    """Return a file name that every system accepts: letters, digits and a few marks, `longest`
    characters at most; `otherwise` if nothing is left."""
    plain = re.sub(r"[^\w .()+-]+", "-", one_line(name)).strip(" .-")
    return plain[:longest].strip(" .-") or otherwise
