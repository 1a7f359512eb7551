"""Another executor or weight mode in the middle of an answer.

The new runner is prepared on a thread of its own while the answer goes on with the old one, and
takes its place between two steps.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from llm_lite.core.handles import Handle
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.messages import EngineOptions, Reconfigure
from llm_lite.core.records import replace

CLIENTS_SECONDS = 0.01  # that a client may wait for notice while a runner is prepared


def options_of(handle: Handle, used: EngineOptions) -> EngineOptions:
    """Return how a Reconfigure wants the model to run that runs with `used`."""
    assert isinstance(handle.command, Reconfigure)
    wanted = handle.command.options
    if not is_by_client(handle):
        return wanted
    return replace(used, mode=wanted.mode, activations=wanted.activations, force=False)


def is_by_client(handle: Handle) -> bool:
    """Return whether a client of the server asked for this change."""
    return isinstance(handle.command, Reconfigure) and handle.command.by_client


class Preparation:
    """A runner in the making. `handle` is of the Reconfigure that asked for it."""

    def __init__(self, handle: Handle, make: Callable[[Handle], AnyRunner]) -> None:
        self.handle = handle
        self._make = make
        self._runner: AnyRunner | None = None
        self._error: BaseException | None = None
        # Started by the engine's thread, whose low priority it inherits.
        self._thread = threading.Thread(target=self._work, name="switching", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._runner = self._make(self.handle)
        except BaseException as error:
            self._error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most `seconds`."""
        self._thread.join(seconds)

    def result(self) -> AnyRunner:
        """Wait for the end and return the runner; raises what making it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._runner is not None
        return self._runner


class Switching:
    """Changes in order, one prepared at a time. `submit`, `supersede` and `is_superseded` are for
    any thread, the rest for one."""

    def __init__(
        self, make: Callable[[Handle], AnyRunner], dropped: Callable[[Handle], None]
    ) -> None:
        """`dropped` is called with each superseded change."""
        self._make, self._dropped = make, dropped
        self._waiting: queue.SimpleQueue[Handle] = queue.SimpleQueue()
        self._preparing: Preparation | None = None
        self._newest: Handle | None = None  # but for those of clients

    def supersede(self, handle: Handle) -> None:
        """Record that a change was sent: it supersedes those before it, unless a client asked."""
        if not is_by_client(handle):
            self._newest = handle

    def is_superseded(self, handle: Handle) -> bool:
        command = handle.command
        may_be = isinstance(command, Reconfigure) and not command.by_client
        return may_be and self._newest not in (None, handle)

    def submit(self, handle: Handle) -> None:
        self._waiting.put(handle)

    def ready(self) -> Preparation | None:
        """Begin the requested preparation, or return the one that has ended, well or not; called
        between two steps."""
        if self._preparing is None:
            self._preparing = self._begin()
            return None
        if not self._preparing.ended:
            return None
        preparation, self._preparing = self._preparing, None
        return self._wanted(preparation)

    def left(self) -> Preparation | None:
        """Return the preparation that is left after an answer, begun if it was not yet."""
        preparation, self._preparing = self._preparing or self._begin(), None
        return preparation

    def drop(self, preparation: Preparation) -> bool:
        """Close what was prepared if a later change has taken its place; return whether it has."""
        return self._wanted(preparation) is None

    def _wanted(self, preparation: Preparation) -> Preparation | None:
        if not self.is_superseded(preparation.handle):
            return preparation
        with suppress(Exception):  # that it was cancelled, above all
            preparation.result().close()
        self._dropped(preparation.handle)
        return None

    def _begin(self) -> Preparation | None:
        while True:
            try:
                handle = self._waiting.get_nowait()
            except queue.Empty:
                return None
            if not self.is_superseded(handle):
                return Preparation(handle, self._make)
            self._dropped(handle)
