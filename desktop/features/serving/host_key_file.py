"""The key that clients of the window's server show: kept in a file for its owner alone."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file

LARGEST_FILE = 4096  # bytes
_BYTES = 24  # random ones of a key: 32 characters
_KEY = re.compile(r"[!-~]{16,256}")


def key_file() -> Path:
    return user_folder("data") / "server-key"


def read_key(path: Path) -> str:
    """ "" where there is none yet. FileError where the file is no key."""
    try:
        if path.stat().st_size == 0:
            return ""
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    key = read_bytes(path, LARGEST_FILE).decode("ascii", "replace").strip()
    if not _KEY.fullmatch(key):
        raise FileError(path, "expected a key of 16 to 256 visible ASCII characters")
    return key


def new_key(path: Path) -> str:
    """A random one, in the place of what was there. FileError."""
    key = f"sk-{secrets.token_urlsafe(_BYTES)}"
    make_folder(path.parent)
    with suppress(OSError):  # one that is there keeps its mode
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with suppress(OSError):
        path.chmod(0o600)
    write_file(path, f"{key}\n".encode())
    return key
