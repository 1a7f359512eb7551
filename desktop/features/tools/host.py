"""Between the window and the tool servers: does what actions ask for, tells in actions what became
of it, and keeps what was declared a moment after it changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from llm_lite.core.errors import FileError
from llm_lite.core.files.places import expanded
from llm_lite.core.tools.arguments import coerced
from llm_lite.core.tools.json_values import read_json
from llm_lite.desktop.features.chat.rounds import calls_of, source_of, waiting
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.calling import (
    CallAnswered,
    CallHostAction,
    RunCall,
    StopCall,
    allowed_calls,
    may_run,
)
from llm_lite.desktop.features.tools.host_files import read, read_functions_file, write
from llm_lite.desktop.features.tools.model import (
    ImportFunctions,
    RemoveServer,
    SetFunctions,
    StartServer,
    StopServer,
    TellServer,
    TellTools,
    ToolHostAction,
)
from llm_lite.desktop.features.tools.state import ToolsState

if TYPE_CHECKING:
    from llm_lite.core.tools.servers import ServerEvent, ToolServers

DELAY = 1.0  # seconds from a change to the file


CLOSE_SECONDS = 0.7  # for servers to end by themselves; only where some run


class ToolHost(Host):
    """`heard` is called, on another thread, when `poll` has something; `log` takes a line."""

    actions = (*get_args(ToolHostAction), *get_args(CallHostAction))

    def __init__(
        self, path: Path, heard: Callable[[], None], log: Callable[[str], None] = lambda line: None
    ) -> None:
        self.path = path
        self.log = log
        self._heard = heard
        self._servers: ToolServers | None = None  # from the first one that is started
        self._kept: tuple[object, ...] | None = None  # None: not read, and so not written
        self._changed_at: float | None = None

    def begin(self) -> list[Action]:
        """What is kept. FileError; then the file stays as it is."""
        text, specs = read(self.path)
        self._kept = (text, specs)
        return [TellTools(text, specs)]

    def do(self, action: ToolHostAction | CallHostAction, state: AppState) -> list[Action]:
        """What follows of it. FileError."""
        if isinstance(action, ImportFunctions):
            return [SetFunctions(read_functions_file(expanded(action.path)))]
        if isinstance(action, StartServer):
            server = state.tools.server(action.name)
            if server is not None and server.status not in ("starting", "on"):
                self._running().start(server.spec)
        elif isinstance(action, StopServer | RemoveServer):
            if self._servers is not None:
                self._servers.stop(action.name)
        elif isinstance(action, RunCall):
            self._run(action, state)
        elif isinstance(action, StopCall):
            message = waiting(state)
            if message is not None and self._servers is not None:
                self._servers.cancel(f"{message.key}.{action.number}")
        return []

    def poll(self, state: AppState) -> list[Action]:
        """What servers said, and the calls that run without asking."""
        self._keep(state.tools)
        actions: list[Action] = []
        if self._servers is not None:
            for event in self._servers.poll():
                actions += self._told(event)
        return actions or list(allowed_calls(state))

    def close(self, state: AppState, timeout: float = CLOSE_SECONDS) -> None:
        self._keep(state.tools, at_once=True)
        if self._servers is not None:
            self._servers.close(timeout)

    def _running(self) -> ToolServers:
        if self._servers is None:
            from llm_lite.core.tools.servers import ToolServers

            self._servers = ToolServers(self._heard)
        return self._servers

    def _run(self, action: RunCall, state: AppState) -> None:
        server, message = may_run(state, action.number), waiting(state)
        if not server or message is None:
            return
        call = calls_of(message)[action.number]
        found, spec = source_of(state, call.name), state.tools.server(server)
        assert found is not None and spec is not None
        arguments = read_json(coerced(call, found[1]).arguments)
        seconds = spec.spec.call_seconds
        number = f"{message.key}.{action.number}"
        self._running().call(number, server, call.name, arguments, seconds)

    def _told(self, event: ServerEvent) -> list[Action]:
        from llm_lite.core.tools import servers

        if isinstance(event, servers.ServerReady):
            return [TellServer(event.server, "on", event.tools)]
        if isinstance(event, servers.ServerEnded):
            if event.problem:
                return [TellServer(event.server, "ended", (), event.problem)]
            return [TellServer(event.server, "off")]
        if isinstance(event, servers.CallEnded):
            key, number = event.call.split(".")
            text, seconds = event.text, event.seconds
            return [CallAnswered(int(key), int(number), text, seconds, event.failed)]
        self.log(f"{event.server}: {event.text}")
        return []

    def _keep(self, tools: ToolsState, at_once: bool = False) -> None:
        if self._kept is None:
            return
        now = time.monotonic()
        specs = tuple(server.spec for server in tools.servers)
        if (tools.text, specs) == self._kept:
            self._changed_at = None
            return
        if self._changed_at is None:
            self._changed_at = now
        if not at_once and now - self._changed_at < DELAY:
            return
        self._kept, self._changed_at = (tools.text, specs), None
        try:
            write(self.path, tools.text, specs)
        except FileError as error:
            self.log(str(error))
