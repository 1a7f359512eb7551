"""A few threads that do one job after the other, and hand over the actions that follow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import defect_of
from llm_lite.desktop.language.translate import tr

Job = Callable[[], Iterable[Action]]
Failed = Callable[[str], Iterable[Action]]  # of a sentence


class Worker:
    """Threads begin with the first job, and end with the program. `wake` is called on them."""

    def __init__(self, name: str, wake: Callable[[], None], threads: int = 1) -> None:
        self._name, self._wake, self._count = name, wake, threads
        self._jobs: SimpleQueue[tuple[Job, Failed]] = SimpleQueue()
        self._found: deque[Action] = deque()
        self._threads: list[threading.Thread] = []

    def put(self, job: Job, failed: Failed) -> None:
        """Queue a job. Where it fails, `failed` is called with the sentence and returns what
        follows."""
        self._jobs.put((job, failed))
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def poll(self) -> list[Action]:
        """Return what jobs have found since the last time."""
        taken = []
        while self._found:
            taken.append(self._found.popleft())
        return taken

    def _work(self) -> None:
        while True:
            job, failed = self._jobs.get()
            try:
                found = list(job())
            except LlmLiteError as error:
                found = list(failed(str(error)))
            except Exception as error:
                words = tr("A defect of the program: {name}").format(name=type(error).__name__)
                found = [*failed(words), defect_of(self._name, error)]
            self._found.extend(found)
            self._wake()
