"""Walks folders of other programs within limits: depth, entries, no folder twice.

Nothing in them is trusted: links may lead in circles or nowhere, names may be anything.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from llm_lite.core.files.writing import reason

MOST_ENTRIES = 100_000  # of a place
DEEPEST = 8  # folders below it


class Walk(Struct):
    """Iterates over the files below `root`, a folder after the other; links are followed, hidden
    files and folders passed over.

    `problems` has what could not be read: (path, a sentence's end) of each.
    """

    root: Path
    deepest: int = DEEPEST
    most: int = MOST_ENTRIES
    problems: list[tuple[Path, str]] = field(default_factory=list)

    def folders(self) -> Iterator[tuple[Path, dict[str, os.stat_result | None]]]:
        """Yield (folder, its files): a file's status, None if its link leads nowhere."""
        waiting = [(self.root, 0)]
        seen: set[tuple[int, int]] = set()
        left = self.most
        while waiting:
            folder, depth = waiting.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in seen and status.st_ino:
                    continue
                seen.add((status.st_dev, status.st_ino))
                files, folders, left = self._read(folder, left)
            except OSError as error:
                self.problems.append((folder, f"cannot be read: {reason(error)}"))
                continue
            if folders and depth >= self.deepest:
                text = f"has folders more than {self.deepest} deep, which are not looked into"
                self.problems.append((self.root, text))
            else:
                waiting += ((path, depth + 1) for path in sorted(folders, reverse=True))
            yield folder, files
            if left <= 0:
                text = f"holds more than {self.most} files, of which the rest is not listed"
                self.problems.append((self.root, text))
                return

    def _read(
        self, folder: Path, left: int
    ) -> tuple[dict[str, os.stat_result | None], list[Path], int]:
        files: dict[str, os.stat_result | None] = {}
        folders = []
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left <= 0:
                    break
                if entry.name.startswith("."):  # what is unfinished, and what systems put there
                    continue
                try:
                    status = entry.stat()
                except OSError:  # a link to nowhere, or to itself
                    files[entry.name] = None
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.append(Path(entry.path))
                elif stat.S_ISREG(status.st_mode):
                    files[entry.name] = status
        return files, folders, left
