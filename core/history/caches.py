"""Saved caches of keys and values: which file belongs to which conversation, within a budget.

The files are `core/kv_cache/on_disk.py`'s. Here only their names, sizes and last uses are kept.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from llm_lite.core.errors import RequestError
from llm_lite.core.files.leftovers import remove_whole
from llm_lite.core.files.private import tighten
from llm_lite.core.history.database.changes import AddCache, DropCache, UseCache
from llm_lite.core.history.history import History
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import SavedCache
from llm_lite.core.records import replace


class CacheCatalogue:
    """The catalogue of saved caches, files in one folder beside the history. Calls read the
    history, and never wait for its disk to write; files are removed at once."""

    def __init__(self, history: History, folder: Path, budget: int) -> None:
        """Make the catalogue. `budget` in bytes of all files together; 0 keeps none."""
        self.folder = folder
        tighten(folder)
        self.budget = budget
        self._history = history
        self._known: dict[int, SavedCache] = {}  # changed here, and maybe not saved yet
        self._gone: set[int] = set()

    def caches(self) -> tuple[SavedCache, ...]:
        """Return the saved caches, the next to be removed first. FileError if the history cannot be
        read."""
        found = {cache.id: cache for cache in self._history.saved_caches()}
        for number, cache in self._known.items():
            saved = found.get(number)
            used = cache if saved is None else replace(saved, used=max(saved.used, cache.used))
            found[number] = used
        left = (cache for cache in found.values() if cache.id not in self._gone)
        return tuple(sorted(left, key=lambda c: (c.conversation is not None, c.used, c.id)))

    def path(self, cache: SavedCache) -> Path:
        return self.folder / _checked(cache.file)

    def add(
        self, conversation: int, message: int | None, file: str, size: int, model: str
    ) -> tuple[SavedCache, ...]:
        """Note a file that was written to the folder; return what was removed for it within the
        budget.

        RequestError where `file` is no plain name.
        """
        now, file = time.time(), _checked(file)
        before = [cache for cache in self.caches() if cache.file == file]
        self._gone.update(cache.id for cache in before)
        cache = SavedCache(new_id(), conversation, message, file, size, model, now, now)
        self._known[cache.id] = cache
        self._history.submit(AddCache(cache))
        return self.enforce()

    def use(self, cache: SavedCache) -> None:
        """Mark a cache as used now, so that others are removed first."""
        used = replace(cache, used=time.time())
        self._known[cache.id] = used
        self._history.submit(UseCache(cache.id, used.used))

    def enforce(self) -> tuple[SavedCache, ...]:
        """Remove files of purged conversations, and the least recently used over the budget; return
        which. A file that cannot be removed stays, and stays in the list."""
        caches = self.caches()
        over = sum(cache.bytes for cache in caches) - self.budget
        removed = []
        for cache in caches:
            if cache.conversation is None or over > 0:
                if not self.remove(cache):
                    continue
                over -= cache.bytes
                removed.append(cache)
        return tuple(removed)

    def remove(self, cache: SavedCache) -> bool:
        """Remove the file first: a row without a file does no harm, a file without a row is
        lost."""
        with suppress(RequestError):  # what lies elsewhere is none of ours: only the row goes
            file = self.path(cache)
            if not file.is_dir():
                remove_whole(file)
            if file.exists():
                return False
        self._gone.add(cache.id)
        self._known.pop(cache.id, None)
        self._history.submit(DropCache(cache.id))
        return True


def _checked(file: str) -> str:
    """Return the file's name, checked to lead nowhere outside of the folder. RequestError."""
    if not file or file in (".", "..") or Path(file).name != file or "\\" in file or "\0" in file:
        raise RequestError(f"the name of a saved cache is no plain file name: {file[:80]!r}")
    return file
