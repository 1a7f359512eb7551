"""The server in a thread: it is started, watched twice a second, and stopped; actions report what
becomes of it. The key that its clients show is kept in a file for its owner alone."""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import write_file
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import ReportDefect, defect_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.model import (
    CancelServed,
    RenewKey,
    ServerBegan,
    ServerEnded,
    ServerNoted,
    ServerReported,
    ServingHostAction,
    SwitchServing,
)
from llm_lite.desktop.features.serving.state import ServingChoice
from llm_lite.desktop.language.translate import tr

if TYPE_CHECKING:
    from llm_lite.core.serving.service import Service
    from llm_lite.server.config import ServerConfig
    from llm_lite.server.serve import Server

PERIOD = 0.5  # seconds between two readings of the requests
SHOWN_OF_KEY = 4  # characters
LARGEST_FILE = 4096  # bytes
_BYTES = 24  # random ones of a key: 32 characters
_KEY = re.compile(r"[!-~]{16,256}")
ServiceOf = Callable[[], "Service | None"]


class ServingHost:
    """The server of the window. `wake` is called, on another thread, when `poll` has something."""

    def __init__(
        self,
        service_of: ServiceOf,
        coming: Callable[[], str],
        wake: Callable[[], None],
        key_path: Path,
    ) -> None:
        self._service_of, self._coming = service_of, coming
        self._wake, self._key_path = wake, key_path
        self._run: _Run | None = None
        self._reports: SimpleQueue[Action] = SimpleQueue()

    def do(self, action: ServingHostAction, state: AppState) -> list[Action]:
        """Begin what the action asks for; what follows comes from `poll`."""
        match action:
            case SwitchServing(True) if self._run is None:
                self._run = _Run(
                    state.serving.choice,
                    self._service_of,
                    self._coming,
                    self._report,
                    self._key_path,
                )
            case RenewKey() if self._run is not None:
                self._run.renew()
            case CancelServed(number) if (service := self._service_of()) is not None:
                service.cancel(number)
        return []

    def poll(self, state: AppState) -> list[Action]:
        """Return what has happened. A server that is not wanted any more is stopped."""
        if self._run is not None and state.serving.phase == "stopping":
            self._run.stop()
        reports: list[Action] = []
        while True:
            try:
                reports.append(self._reports.get_nowait())
            except Empty:
                break
        if any(isinstance(action, ServerEnded) for action in reports):
            self._run = None
        return reports

    def close(self, timeout: float) -> None:
        """Stop the server and wait `timeout` seconds at most; the thread ends with the program in
        any case."""
        if self._run is not None:
            self._run.stop()
            self._run.join(timeout)

    def _report(self, action: Action) -> None:
        self._reports.put(action)
        self._wake()


class _Run:
    """From one switching on to the switching off."""

    def __init__(
        self,
        choice: ServingChoice,
        service_of: ServiceOf,
        coming: Callable[[], str],
        report: Callable[[Action], None],
        key_path: Path,
    ) -> None:
        self._choice, self._service_of, self._coming = choice, service_of, coming
        self._report, self._key_path = report, key_path
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
            self._report(defect_of("The server ended", error))
        self._report(ServerEnded(problem))

    def _serve(self) -> None:
        """Serve until the server is to stop, or to begin again. Raises LlmLiteError where it cannot
        listen."""
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
            self._report(
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
        """Report a defect that a request met, on the thread of the server."""
        self._report(ReportDefect("A request of the server", text, time.time()))

    def _note(self, text: str) -> None:
        self._report(ServerNoted(text))

    def _key(self) -> tuple[str, bool]:
        """Return the key, "" where none is asked for, and whether it is new."""
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
                self._report(ServerReported(status))
        if not server.is_running and not self._changed.is_set():
            raise LlmLiteError(tr("The server ended by itself."))


_NOTHING = object()


def config_of(choice: ServingChoice, key: str, others: tuple[str, ...]) -> ServerConfig:
    from llm_lite.server.config import ServerConfig, page_history

    history = None if choice.shows_history else page_history()
    if choice.reach == "machine":
        names = choice.host_names
        return ServerConfig(port=choice.port, api_key=key, host_names=names, history=history)
    names = (*others, socket.gethostname(), *choice.host_names)
    return ServerConfig("0.0.0.0", choice.port, key, host_names=names, history=history)


def reachable(choice: ServingChoice) -> tuple[str, ...]:
    """List the addresses of this machine in its networks, where others may ask."""
    from llm_lite.server.config import network_addresses

    return () if choice.reach == "machine" else network_addresses()


def key_file() -> Path:
    return user_folder("data") / "server-key"


def read_key(path: Path) -> str:
    """Return the kept key, "" where there is none yet. Raises FileError where the file
    is no key."""
    try:
        if path.stat().st_size == 0 and path.is_file():
            return ""
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    key = read_bytes(path, LARGEST_FILE, private=True).decode("ascii", "replace").strip()
    if not _KEY.fullmatch(key):
        raise FileError(path, "expected a key of 16 to 256 visible ASCII characters")
    return key


def new_key(path: Path) -> str:
    """Write a random key in the place of what was there, and return it. Raises FileError."""
    key = f"sk-{secrets.token_urlsafe(_BYTES)}"
    private_folder(path.parent, shared=True)
    write_file(path, f"{key}\n".encode(), private=True)
    return key
