"""Switches of the weight mode that clients of a server ask for, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.messages import Activations, EngineOptions, Mode, ModeSwitch, Reconfigure
from llm_lite.core.records import replace

UNDER_WAY = "the weight mode is being switched to {mode}: wait, or cancel that first"


class ModeSwitches:
    """The switches of the weight mode, for any thread. `submit` gives the engine a command."""

    def __init__(self, submit: Callable[[Reconfigure], object]) -> None:
        self._submit = submit
        self._lock = threading.Lock()
        self._last: ModeSwitch | None = None
        self._is_cancelled = False

    @property
    def last(self) -> ModeSwitch | None:
        """Return the switch under way, or else the last one."""
        return self._last

    def request(self, mode: Mode, activations: Activations) -> None:
        """Start a switch of the mode. RequestError while another one is under way."""
        with self._lock:
            before = self._last
            if before is not None and before.is_under_way:
                raise RequestError(UNDER_WAY.format(mode=before.mode))
            number = before.number + 1 if before is not None else 1
            self._last, self._is_cancelled = ModeSwitch(number, mode, activations), False
        options = EngineOptions(mode=mode, activations=activations)
        self._submit(Reconfigure(options, by_client=True))

    def cancel(self) -> None:
        """Cancel the switch under way; it ends soon, unless it is done before."""
        self._is_cancelled = True

    # For the engine's threads.

    def progress(self, stage: str, fraction: float) -> None:
        """Record the progress of the switch. CancelledError where a client cancelled it."""
        with self._lock:
            if self._is_cancelled:
                raise CancelledError("cancelled")
            if self._last is not None:
                self._last = replace(self._last, phase="preparing", stage=stage, fraction=fraction)

    def end(self, problem: str = "", *, unwanted: bool = False) -> None:
        """Record that the switch is done, or that it was cancelled, or why it failed."""
        with self._lock:
            if self._last is None:
                return
            if unwanted:
                self._last = replace(self._last, phase="cancelled", stage="")
            elif problem:
                self._last = replace(self._last, phase="failed", problem=problem)
            else:
                self._last = replace(self._last, phase="done", stage="", fraction=1.0)
