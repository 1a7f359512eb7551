"""Reads the draft's files in a thread of its own: a disk may be slow, and a PDF long."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path

from llm_lite.core.errors import CancelledError, FileError
from llm_lite.desktop.features.attachments.model import FileRead
from llm_lite.desktop.features.attachments.state import DraftFile, DraftFiles
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.defects import ReportDefect, defect_of
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState

Act = FileRead | OpenModel | ReportDefect


class FileReader(Host):
    """A reader of the files that go with the draft."""

    def __init__(self) -> None:
        self._seen: tuple[DraftFile, ...] = ()
        self._known: set[int] = set()  # files that are there, by their keys
        self._waiting: deque[DraftFile] = deque()
        self._done: deque[Act] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def _follow(self, files: DraftFiles) -> None:
        """Read what is new among the draft's files, and nothing that is gone."""
        if files.files is self._seen:
            return
        fresh = [f for f in files.files if f.attached is None and f.key not in self._known]
        self._seen, self._known = files.files, {file.key for file in files.files}
        if not fresh:
            return
        with self._lock:
            self._waiting.extend(fresh)
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._work, name="attachments", daemon=True).start()

    def poll(self, state: AppState) -> list[Act]:
        self._follow(state.files)
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def _work(self) -> None:
        from llm_lite.core.attachments import end_process

        while (file := self._next()) is not None:
            if file.key in self._known:
                self._done.extend(self._read(file))
                self.wake()
            if not self._waiting:
                end_process()  # while this thread is the only one that reads

    def _next(self) -> DraftFile | None:
        with self._lock:
            self._is_running = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def _read(self, file: DraftFile) -> list[Act]:
        from llm_lite.core.attachments import FoundModelError, read_attachment
        from llm_lite.core.text.sandbox.process import cancelled_by

        try:
            with cancelled_by(lambda: file.key not in self._known):
                return [FileRead(file.key, read_attachment(Path(file.path)))]
        except FoundModelError:
            return [FileRead(file.key, None), OpenModel(file.path)]
        except FileError as error:
            return [FileRead(file.key, None, error.problem)]
        except CancelledError:
            return []
        except Exception as error:
            return [FileRead(file.key, None), defect_of(f"{file.name} could not be read", error)]
