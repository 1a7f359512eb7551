"""The server in a thread: it is started, watched twice a second, and stopped; what becomes of it is
told in actions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.defects import ReportDefect, defect_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.host_key_file import new_key, read_key
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    RenewKey,
    ServerBegan,
    ServerEnded,
    ServerHeard,
    ServerNoted,
    ServingHostAction,
    SwitchServing,
)
from llm_lite.desktop.features.serving.state import ServingChoice
from llm_lite.desktop.language.translate import tr

if TYPE_CHECKING:
    from llm_lite.core.serving.service import Service
    from llm_lite.server.config import ServerConfig
    from llm_lite.server.serve import Server

PERIOD = 0.5  # seconds between two looks at the requests
SHOWN_OF_KEY = 4  # characters
ServiceOf = Callable[[], "Service | None"]


class ServingHost:
    """`heard` is called, on another thread, when `poll` has something."""

    def __init__(
        self,
        service_of: ServiceOf,
        coming: Callable[[], str],
        heard: Callable[[], None],
        key_path: Path,
    ) -> None:
        self._service_of, self._coming = service_of, coming
        self._heard, self._key_path = heard, key_path
        self._run: _Run | None = None
        self._told: SimpleQueue[Action] = SimpleQueue()

    def do(self, action: ServingHostAction, state: AppState) -> list[Action]:
        """Begin it; what follows comes from `poll`."""
        match action:
            case SwitchServing(True) if self._run is None:
                self._run = _Run(
                    state.serving.choice,
                    self._service_of,
                    self._coming,
                    self._tell,
                    self._key_path,
                )
            case RenewKey() if self._run is not None:
                self._run.renew()
            case CancelServed(number) if (service := self._service_of()) is not None:
                service.cancel(number)
        return []

    def poll(self, state: AppState) -> list[Action]:
        """What has happened. A server that is not wanted any more is stopped."""
        if self._run is not None and state.serving.phase == "stopping":
            self._run.stop()
        told: list[Action] = []
        while True:
            try:
                told.append(self._told.get_nowait())
            except Empty:
                break
        if any(isinstance(action, ServerEnded) for action in told):
            self._run = None
        return told

    def close(self, timeout: float) -> None:
        """Seconds that it may take; the thread ends with the program in any case."""
        if self._run is not None:
            self._run.stop()
            self._run.join(timeout)

    def _tell(self, action: Action) -> None:
        self._told.put(action)
        self._heard()


class _Run:
    """From one switching on to the switching off."""

    def __init__(
        self,
        choice: ServingChoice,
        service_of: ServiceOf,
        coming: Callable[[], str],
        tell: Callable[[Action], None],
        key_path: Path,
    ) -> None:
        self._choice, self._service_of, self._coming = choice, service_of, coming
        self._tell, self._key_path = tell, key_path
        self._changed = threading.Event()  # it is to stop, or to begin again with another key
        self._stopping = self._renewing = False
        self._thread = threading.Thread(target=self._work, name="serving", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._changed.set()

    def renew(self) -> None:
        self._renewing = True
        self._changed.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _work(self) -> None:
        problem = ""
        try:
            while not self._stopping:
                self._serve()
        except LlmLiteError as error:
            problem = str(error)
        except Exception as error:
            self._tell(defect_of("The server ended", error))
        self._tell(ServerEnded(problem))

    def _serve(self) -> None:
        """Until it is to stop, or to begin again. LlmLiteError where it cannot listen."""
        from llm_lite.server.serve import Server

        key, fresh = self._key()
        others = reachable(self._choice)
        server = Server(
            self._service_of,
            config_of(self._choice, key, others),
            self._log,
            self._note,
            self._coming,
        )
        server.start()
        try:
            self._tell(
                ServerBegan(
                    server.address,
                    tuple(f"http://{host}:{server.port}" for host in others),
                    key[-SHOWN_OF_KEY:],
                    key if fresh else "",
                )
            )
            self._watch(server)
        finally:
            server.stop()

    def _log(self, text: str) -> None:
        """Of the server, on its thread: a request met a defect."""
        self._tell(ReportDefect("A request of the server", text, time.time()))

    def _note(self, text: str) -> None:
        self._tell(ServerNoted(text))

    def _key(self) -> tuple[str, bool]:
        """The key, "" where none is asked for, and whether it is new."""
        renewing, self._renewing = self._renewing, False
        self._changed.clear()
        if self._stopping:
            self._changed.set()
        if not self._choice.needs_key:
            return "", False
        key = "" if renewing else read_key(self._key_path)
        return (key, False) if key else (new_key(self._key_path), True)

    def _watch(self, server: Server) -> None:
        before: Any = _NOTHING
        while not self._changed.wait(PERIOD) and server.is_running:
            service = self._service_of()
            status = service.status() if service is not None else None
            if status != before:
                before = status
                self._tell(ServerHeard(status))
        if not server.is_running and not self._changed.is_set():
            raise LlmLiteError(tr("The server ended by itself."))


_NOTHING = object()


def config_of(choice: ServingChoice, key: str, others: tuple[str, ...]) -> ServerConfig:
    from llm_lite.server.config import ServerConfig, page_history

    history = None if choice.shows_history else page_history()
    if choice.reach == "machine":
        return ServerConfig(port=choice.port, api_key=key, history=history)
    names = (*others, socket.gethostname())
    return ServerConfig("0.0.0.0", choice.port, key, host_names=names, history=history)


def reachable(choice: ServingChoice) -> tuple[str, ...]:
    """Addresses of this machine in its networks, where others may ask."""
    from llm_lite.server.config import network_addresses

    return () if choice.reach == "machine" else network_addresses()
