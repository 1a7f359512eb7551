"""Another executor or weight mode in the middle of an answer.

The new runner is prepared on a thread of its own while the answer goes on with the old one, and
takes its place between two steps.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import replace

from llm_lite.core.loading.encoders.starting import AnyRunner
from llm_lite.core.messages import EngineOptions, Reconfigure, SwitchMode
from llm_lite.core.records import dataclass

CLIENTS_SECONDS = 0.01  # that a client may wait for notice while a runner is prepared


@dataclass(frozen=True, slots=True)
class Request:
    number: int  # of the command
    command: Reconfigure | SwitchMode

    def options(self, used: EngineOptions) -> EngineOptions:
        """How to run the model that runs with the options `used`."""
        if isinstance(self.command, Reconfigure):
            return self.command.options
        mode, activations = self.command.mode, self.command.activations
        return replace(used, mode=mode, activations=activations, force=False)


class Preparation:
    """A runner in the making."""

    def __init__(self, request: Request, make: Callable[[Request], AnyRunner]) -> None:
        self.request = request
        self._make = make
        self._runner: AnyRunner | None = None
        self._error: BaseException | None = None
        # Started by the engine's thread, whose low priority it inherits.
        self._thread = threading.Thread(target=self._work, name="switching", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._runner = self._make(self.request)
        except BaseException as error:
            self._error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """For its end, but no longer than that."""
        self._thread.join(seconds)

    def result(self) -> AnyRunner:
        """Waits for the end; raises what the making raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._runner is not None
        return self._runner


class Switching:
    """Requests in order, one prepared at a time. `ask` is for any thread, the rest for one."""

    def __init__(self, make: Callable[[Request], AnyRunner]) -> None:
        self._make = make
        self._waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._preparing: Preparation | None = None

    def ask(self, number: int, command: Reconfigure | SwitchMode) -> None:
        self._waiting.put(Request(number, command))

    def ready(self) -> Preparation | None:
        """Between two steps: begin what was asked for; the one that has ended, well or not."""
        if self._preparing is None:
            self._preparing = self._begin()
            return None
        if not self._preparing.ended:
            return None
        preparation, self._preparing = self._preparing, None
        return preparation

    def left(self) -> Preparation | None:
        """After an answer: the preparation that is left, begun if it was not yet."""
        preparation, self._preparing = self._preparing or self._begin(), None
        return preparation

    def _begin(self) -> Preparation | None:
        try:
            return Preparation(self._waiting.get_nowait(), self._make)
        except queue.Empty:
            return None
