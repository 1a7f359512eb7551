"""Switches of a scripted service's weight mode: they are prepared as fast as a test lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import Activations, Mode, ModeSwitch
from llm_lite.core.records import replace


class ScriptedModes:
    """`go_on` is cleared by a test that looks at a switch under way; with a `problem` it fails."""

    def __init__(self, switched: Callable[[Mode, Activations], None]) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.problem = ""
        self.last: ModeSwitch | None = None
        self._switched, self._is_cancelled = switched, False

    def request(self, mode: Mode, activations: Activations) -> None:
        if self.last is not None and self.last.is_under_way:
            raise RequestError(f"the weight mode is being switched to {self.last.mode}: wait")
        number = self.last.number + 1 if self.last else 1
        self.last = ModeSwitch(
            number, mode, activations, "preparing", "preparing the weights", fraction=0.4
        )
        self._is_cancelled = False
        threading.Thread(target=self._prepare, daemon=True).start()

    def cancel(self) -> None:
        self._is_cancelled = True

    def _prepare(self) -> None:
        assert self.last is not None
        while not (self.go_on.wait(0.01) or self._is_cancelled):
            """A test looks at it."""
        if self._is_cancelled:
            self.last = replace(self.last, phase="cancelled")
        elif self.problem:
            self.last = replace(self.last, phase="failed", problem=self.problem)
        else:
            self._switched(self.last.mode, self.last.activations)
            self.last = replace(self.last, phase="done", fraction=1.0)
