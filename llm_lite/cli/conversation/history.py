"""What was typed before: a JSON string a line, in a file that only its owner reads.

Whatever is wrong with that file, there is a conversation: without what was typed before, then.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from llm_lite.core.files.places import user_folder

KEPT = 256 << 10  # bytes that are read, and left when the file has grown to GROWN
GROWN = 1 << 20


def history_path() -> Path:
    return user_folder("state") / "chat-history"


class LineHistory(History):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = self._tail().splitlines()
        return [text for text in map(_text, reversed(lines)) if text]

    def store_string(self, string: str) -> None:
        if not _is_text(string):
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._append((json.dumps(string) + "\n").encode())

    def _append(self, line: bytes) -> None:
        file = self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(file).st_size > GROWN:
                tail = self._tail()
                os.ftruncate(file, 0)
                os.write(file, tail)
            os.write(file, line)
        finally:
            os.close(file)

    def _tail(self) -> bytes:
        """The last whole lines of the file."""
        with contextlib.suppress(OSError), os.fdopen(self._open(os.O_RDONLY), "rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - KEPT)
            file.seek(begin)
            raw = file.read(KEPT)
            return raw.partition(b"\n")[2] if begin else raw
        return b""

    def _open(self, flags: int) -> int:
        """OSError for anything but a file: a FIFO would be waited for."""
        file = os.open(self._path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError("not a file")
        return file


def _text(line: bytes) -> str:
    """The text of a line; "" where there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) and _is_text(value) else ""


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
