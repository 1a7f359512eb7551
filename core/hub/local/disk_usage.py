"""The disk usage of folders: every file once, whatever links to it, none outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from llm_lite.core.files.writing import reason
from llm_lite.core.hub.local.listing import Places, local_models, machine_places
from llm_lite.core.messages.library import LocalModel, Origin

_MOST_ENTRIES = 500_000  # of a folder


class PlaceSize(Struct, frozen=True):
    origin: Origin
    folder: Path
    models: int
    files: int
    size: int  # bytes
    problem: str = ""  # why it is more than that


def sizes(
    places: Places | None = None, models: Iterable[LocalModel] | None = None
) -> list[PlaceSize]:
    """Return the size of each place that exists. Of imported models the files that are listed
    count."""
    where = machine_places() if places is None else places
    every = list(local_models(where) if models is None else models)
    found = []
    for origin, folder in where.folders:
        here = [m for m in every if m.origin == origin and m.path.is_relative_to(folder)]
        if origin == "imported":
            here = [m for m in every if m.origin == origin]
            files = {file for model in here for file in model.files}
            total = sum(m.size for m in here)
            found.append(PlaceSize(origin, folder, len(here), len(files), total))
        else:
            files_here, nbytes, problem = usage(folder)
            found.append(PlaceSize(origin, folder, len(here), files_here, nbytes, problem))
    for model in every:
        if model.origin == "bundled":
            found.insert(0, PlaceSize("bundled", model.path.parent, 1, 1, model.size))
    return found


def usage(folder: Path) -> tuple[int, int, str]:
    """Return (files, bytes, a sentence on what could not be counted)."""
    seen: set[tuple[int, int]] = set()
    waiting, total, entries, problem = [folder], 0, 0, ""
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as found:
                for entry in found:
                    entries += 1
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(Path(entry.path))
                    elif stat.S_ISREG(status.st_mode):
                        total += _bytes(status, seen)
        except OSError as error:
            problem = f"{place}: cannot be read: {reason(error)}"
        if entries > _MOST_ENTRIES:
            return len(seen), total, f"{folder}: holds more than {_MOST_ENTRIES} files"
    return len(seen), total, problem


def _bytes(status: os.stat_result, seen: set[tuple[int, int]]) -> int:
    """Return a file's bytes, of one with holes only what is written."""
    key = status.st_dev, status.st_ino or len(seen)  # some systems number no files
    if key in seen:
        return 0
    seen.add(key)
    blocks = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, blocks * 512)
