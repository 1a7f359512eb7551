"""Clients of a server, as the engine serves them: off, nothing of it is imported or allocated."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from llm_lite.core import system_errors
from llm_lite.core.engine.hosting.mode_switches import ModeSwitches
from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.errors import DeviceError, LlmLiteError
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import Event, Level, StartServing

if TYPE_CHECKING:
    from llm_lite.core.serving.service import Service
    from llm_lite.core.serving.serving import MakeRoom, Serving


class Clients:
    """Serves clients; `service` and `wake` are for any thread, the rest for the engine's.

    The engine's thread sleeps while it has nothing to do: `rouse` wakes it then.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        log: Callable[[Level, str], None],
        rouse: Callable[[], None],
        is_closing: Callable[[], bool],
        modes: ModeSwitches,
    ) -> None:
        self._emit, self._log, self._rouse, self._is_closing = emit, log, rouse, is_closing
        self._modes = modes
        self._serving: Serving | None = None
        self._is_asleep = False

    @property
    def service(self) -> Service | None:
        serving = self._serving
        return None if serving is None or not serving.is_on else serving.service

    @property
    def has_work(self) -> bool:
        return self._serving is not None and self._serving.has_work

    def wake(self) -> None:
        if self._is_asleep:
            self._is_asleep = False
            self._rouse()

    def fall_asleep(self) -> bool:
        """Return True if the engine's thread may wait now, as the clients have no work."""
        self._is_asleep = True
        if self.has_work:  # it came before the thread was seen to sleep
            self._is_asleep = False
        return self._is_asleep

    def start(self, options: StartServing, host: ModelHost) -> str:
        """Serve the model in use, whose executor gets room for clients; return "", or why it cannot
        be, as a sentence."""
        from llm_lite.core.serving.serving import Serving

        self.stop(host)
        if host.runner is None:
            return host.no_runner
        emit, log, is_closing = self._emit, self._log, self._is_closing
        serving = Serving(options, emit, log, self.wake, is_closing, self._modes)
        self._serving = serving  # before an event reports it
        use = lambda: serving.use_runner(host.runner, host.make_room)  # noqa: E731
        problem = self._with_fallback(host, use)
        if not (serving.is_on or serving.problem or problem):  # another executor has taken over
            problem = self._with_fallback(host, use)
        if serving.is_on:
            return ""
        self._serving = None
        return problem or serving.problem

    def stop(self, host: ModelHost) -> None:
        """End all answers, and free their room."""
        self.close()
        self._end_room(host)

    def close(self) -> None:
        """End all answers; their positions in the cache are lost."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.close()

    def step(self, host: ModelHost, *, waits: bool = True) -> bool:
        """Run at most one step for the clients and return True if there is more to do. `host` has
        another executor afterwards if its device failed. `waits`: see `Serving.step`."""
        was_on = self._serving is not None
        self._with_fallback(host, lambda: self._step(host, host.make_room, waits))
        if was_on and self._serving is None:
            self._end_room(host)
        return self.has_work

    def step_beside(self, host: ModelHost) -> None:
        """Run a step for the clients while other work uses the executor, which is not replaced: if
        it fails, or has no room for them."""
        try:
            self._step(host, None, waits=False)
        except DeviceError as error:
            self._give_up(str(error))

    def _step(self, host: ModelHost, make_room: MakeRoom | None, waits: bool) -> None:
        serving = self._serving
        if serving is None:
            return
        try:
            why_none = "" if host.runner is not None else host.no_runner
            serving.step(host.runner, make_room, waits=waits, why_none=why_none)
        except DeviceError:
            raise
        except BaseException as error:  # a defect ends serving, and nothing besides
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            serving.close(system_errors.defect(error))
        if not serving.is_on:
            self._serving = None

    def _end_room(self, host: ModelHost) -> None:
        self._with_fallback(host, host.end_room)
        trim_heap()

    def _with_fallback(self, host: ModelHost, work: Callable[[], None]) -> str:
        """Run work of the host's device. Where that fails another executor takes over; return why
        none could, as a sentence, or ""."""
        try:
            work()
        except DeviceError as error:
            try:
                host.fall_back(error)
            except LlmLiteError as problem:
                self._give_up(str(problem))
                return str(problem)
        return ""

    def _give_up(self, problem: str) -> None:
        if self._serving is not None:
            self._serving.fail(problem)
