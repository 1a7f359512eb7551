"""Caches of conversations on disk, listed beside the history: which file is whose, within a budget.

Called on the thread that reads the history; the engine writes the files.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from llm_lite.core.files.leftovers import remove_whole
from llm_lite.core.history import History, SavedCache
from llm_lite.core.history.caches import CacheCatalogue
from llm_lite.core.messages import CacheKept
from llm_lite.desktop.actions.history import fit_title
from llm_lite.desktop.actions.resuming import KeptFound, KeptListed
from llm_lite.desktop.state.resuming.kept import BUDGET, KeptCache

FOLDER = "caches"  # beside the history
STRAY = 3600.0  # seconds; a younger file may be another window's, whose row is not there yet


class KeptCaches:
    def __init__(self, history: History) -> None:
        self.folder = history.path.parent / FOLDER
        self._history = history
        self._catalogue = CacheCatalogue(history, self.folder, BUDGET)

    def listed(self) -> KeptListed:
        """All that there are."""
        return KeptListed(tuple(self._there()), str(self.folder))

    def found(self, conversation: int) -> list[KeptFound]:
        """A conversation's file, if it has one."""
        cache = self._of(conversation)
        if cache is None or not self._catalogue.path(cache).is_file():
            return []
        self._catalogue.use(cache)
        return [KeptFound(conversation, str(self._catalogue.path(cache)))]

    def add(self, event: CacheKept, budget: int) -> None:
        """A file was written: others make room for it; it goes if its conversation has gone."""
        path, summary = Path(event.path), self._history.summary(event.conversation)
        if path.parent != self.folder:
            return
        if summary is None or summary.deleted is not None:
            remove_whole(path)
            return
        self._catalogue.budget = budget
        self._catalogue.add(event.conversation, None, path.name, event.bytes, event.model)

    def fit(self, budget: int) -> None:
        self._catalogue.budget = budget
        self._catalogue.enforce()

    def remove(self, conversations: Collection[int] | None = None) -> None:
        """Those of some conversations; None: all."""
        for cache in self._catalogue.caches():
            if conversations is None or cache.conversation in conversations:
                self._catalogue.remove(cache)

    def tidy(self) -> None:
        """Files of conversations that are gone, and files that nobody knows."""
        self._catalogue.budget = sum(cache.bytes for cache in self._catalogue.caches())
        self._catalogue.enforce()
        known = {cache.file for cache in self._catalogue.caches()}
        for path in self.folder.glob("*.kv"):
            with suppress(OSError):
                if path.name not in known and time.time() - path.stat().st_mtime > STRAY:
                    remove_whole(path)

    def _of(self, conversation: int) -> SavedCache | None:
        caches = (c for c in self._catalogue.caches() if c.conversation == conversation)
        return max(caches, key=lambda cache: cache.created, default=None)

    def _there(self) -> Iterator[KeptCache]:
        for cache in self._catalogue.caches():
            summary = None
            if cache.conversation is not None:
                summary = self._history.summary(cache.conversation)
            if summary is not None:
                title = fit_title(summary.title)
                yield KeptCache(summary.id, title, cache.bytes, cache.created)
