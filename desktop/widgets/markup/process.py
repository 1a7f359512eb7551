"""Formulas and colours of code, made by a process apart; a frame takes what is there.

Both are asked for by a thread, one at a time. What fails stays failed: its source is shown.
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from typing import Any

from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, SandboxProcess

WORKER = "llm_lite.desktop.widgets.markup.worker"
# On a busy machine the process waits for a core far longer than it computes.
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=60.0, memory_bytes=512 << 20)
KEPT = 2048  # answers
MOST_WAITING = 256

Key = tuple[str, ...]
Answer = dict[str, Any]
FAILED: Answer = {}


class MarkupProcess:
    """Answers to requests, made in another process; for the thread that draws."""

    def __init__(self) -> None:
        self.version = 0  # of the formulas: one more with each that is there
        self._process = SandboxProcess(WORKER)
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._waiting: OrderedDict[Key, tuple[str, dict[str, Any]]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        atexit.register(self.close)

    def formula(self, tex: str, display: bool) -> Answer | None:
        """Return a formula's outline; FAILED where it cannot be set, None where it is not there
        yet."""
        request = {"tex": tex, "display": display}
        return self._request(("formula", tex, str(display)), "formula", request)

    def highlight(self, language: str, code: str) -> Answer | None:
        request = {"language": language, "code": code}
        return self._request(("highlight", language, code), "highlight", request)

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until nothing is asked for any more; return whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, seconds)

    def close(self) -> None:
        """End the process; what is asked later starts another."""
        with self._changed:
            self._waiting.clear()
        self._process.close()

    def _request(self, key: Key, action: str, request: dict[str, Any]) -> Answer | None:
        answer = self._answers.get(key)
        if answer is None:
            with self._changed:
                if key not in self._waiting and len(self._waiting) < MOST_WAITING:
                    self._waiting[key] = action, request
                    self._begin()
        return answer

    def _begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="markup", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        """Work until nothing waits."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    return
                key, (action, request) = next(iter(self._waiting.items()))
            answer = self._call(action, request)
            with self._changed:
                self._waiting.pop(key, None)
                self._answers[key] = answer
                if len(self._answers) > KEPT:
                    self._answers.popitem(last=False)
                self.version += action == "formula"
                self._changed.notify_all()

    def _call(self, action: str, request: dict[str, Any]) -> Answer:
        try:
            answer = self._process.call(action, request, limits=LIMITS)
        except SandboxError:
            return FAILED
        return FAILED if "failed" in answer else answer


_shared: list[MarkupProcess] = []


def markup() -> MarkupProcess:
    """Return the markup process of this program."""
    if not _shared:
        _shared.append(MarkupProcess())
    return _shared[0]
