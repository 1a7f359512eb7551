"""The host of tool servers: it runs them and their calls, reports on both by actions, and keeps
declared functions and servers in a file of the data folder, which is read as untrusted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from msgspec import Meta, Struct

from llm_lite.core.checked import convert_in_file
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes, read_object
from llm_lite.core.files.places import expanded, user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import write_file
from llm_lite.core.messages import ServerSpec
from llm_lite.core.plain_text import one_line
from llm_lite.core.tools.arguments import coerced
from llm_lite.core.tools.declared import MOST_DECLARED, NAME, NAME_RULE
from llm_lite.core.tools.json_values import read_json
from llm_lite.desktop.features.chat.reading import calls_of, source_of, waiting
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tools.model import (
    CallAnswered,
    CallHostAction,
    ImportFunctions,
    RemoveServer,
    RestoreTools,
    RunCall,
    SetFunctions,
    SetServerStatus,
    StartServer,
    StopCall,
    StopServer,
    ToolHostAction,
    allowed_calls,
    may_run,
)
from llm_lite.desktop.features.tools.state import (
    LONGEST_DECLARED,
    MOST_SERVERS,
    MOST_VARIABLES,
    ToolsState,
)
from llm_lite.desktop.language.incoming import typed

if TYPE_CHECKING:
    from llm_lite.core.tools.servers import ServerEvent, ToolServers

DELAY = 1.0  # seconds from a change to the file
LARGEST_FILE = 32 << 20  # bytes


CLOSE_SECONDS = 0.7  # for servers to end by themselves; only where some run


class ToolHost(Host):
    """Runs tool servers. `wake` is called, on another thread, when `poll` has something to return;
    `log` takes a line."""

    actions = (*get_args(ToolHostAction), *get_args(CallHostAction))

    def __init__(
        self, path: Path, wake: Callable[[], None], log: Callable[[str], None] = lambda line: None
    ) -> None:
        self.path = path
        self.log = log
        self._wake = wake
        self._servers: ToolServers | None = None  # from the first one that is started
        self._kept: tuple[object, ...] | None = None  # None: not read, and so not written
        self._changed_at: float | None = None

    def begin(self) -> list[Action]:
        """Return the actions that restore what is kept. On a FileError the file stays as it is."""
        text, specs = read(self.path)
        self._kept = (text, specs)
        return [RestoreTools(text, specs)]

    def do(self, action: ToolHostAction | CallHostAction, state: AppState) -> list[Action]:
        """Carry out an action, and return those that follow from it. Raise FileError."""
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
                self._servers.cancel(_run_of(state, message, action.number))
        return []

    def poll(self, state: AppState) -> list[Action]:
        """Return actions for the events of servers, or the calls that run without asking."""
        self._keep(state.tools)
        actions: list[Action] = []
        if self._servers is not None:
            for event in self._servers.poll():
                actions += self._actions_of(event, state)
        return actions or list(allowed_calls(state))

    def close(self, state: AppState, timeout: float = CLOSE_SECONDS) -> None:
        self._keep(state.tools, at_once=True)
        if self._servers is not None:
            self._servers.close(timeout)

    def _running(self) -> ToolServers:
        if self._servers is None:
            from llm_lite.core.tools.servers import ToolServers

            self._servers = ToolServers(self._wake)
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
        run = _run_of(state, message, action.number)
        self._running().call(run, server, call.name, arguments, seconds)

    def _actions_of(self, event: ServerEvent, state: AppState) -> list[Action]:
        from llm_lite.core.tools import servers

        if isinstance(event, servers.ServerReady):
            return [SetServerStatus(event.server, "on", event.tools)]
        if isinstance(event, servers.ServerEnded):
            if event.problem:
                return [SetServerStatus(event.server, "ended", (), event.problem)]
            return [SetServerStatus(event.server, "off")]
        if isinstance(event, servers.CallEnded):
            chat, key, number = map(int, event.call.split("."))
            if chat != state.chat:  # its conversation was left meanwhile
                return []
            return [CallAnswered(key, number, event.text, event.seconds, event.failed)]
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


def tools_file() -> Path:
    return user_folder("data") / "tools.json"


_Seconds = Annotated[float, Meta(ge=0.1, le=3600)]


class _Server(Struct):
    name: Annotated[str, Meta(pattern=rf"^{NAME.pattern}\Z", extra={"expected": NAME_RULE})]
    command: Annotated[str, Meta(max_length=4096)]
    environment: dict[str, str] = {}
    start_seconds: _Seconds = 10.0
    call_seconds: _Seconds = 30.0

    def spec(self) -> ServerSpec:
        variables = tuple(list(self.environment.items())[:MOST_VARIABLES])
        command = one_line(self.command)
        return ServerSpec(self.name, command, variables, self.start_seconds, self.call_seconds)


class _ToolsFile(Struct):
    functions: Annotated[str, Meta(max_length=LONGEST_DECLARED)] = ""
    servers: Annotated[tuple[_Server, ...], Meta(max_length=MOST_SERVERS)] = ()


def read(path: Path) -> tuple[str, tuple[ServerSpec, ...]]:
    """Read the file; without one, return nothing. Raise a FileError that names the field."""
    try:
        if path.stat().st_size == 0 and path.is_file():
            return "", ()
    except FileNotFoundError:
        return "", ()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    data = read_object(path, limit=LARGEST_FILE, private=True)
    kept = convert_in_file(data, _ToolsFile, path)
    specs = {server.name: server.spec() for server in kept.servers}
    return typed(kept.functions), tuple(specs.values())


def write(path: Path, text: str, servers: tuple[ServerSpec, ...]) -> None:
    """Write the file for its owner alone, as the environment of a server may hold a key. Raise
    FileError."""
    kept = [
        {
            "name": s.name,
            "command": s.command,
            "environment": dict(s.environment),
            "start_seconds": s.start_seconds,
            "call_seconds": s.call_seconds,
        }
        for s in servers
    ]
    private_folder(path.parent, shared=True)
    data = json.dumps({"functions": text, "servers": kept}, ensure_ascii=False, indent=2)
    write_file(path, data.encode(errors="backslashreplace"), private=True)


def read_functions_file(path: Path) -> str:
    """Read the text of a file of functions, which is treated as if typed. Raise FileError."""
    raw = read_bytes(path, MOST_DECLARED)
    try:
        return typed(raw.decode())
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not valid UTF-8 at byte {error.start}") from None


def _run_of(state: AppState, message: Message, number: int) -> str:
    """Return the name of a call that runs: a conversation that is opened again runs it anew."""
    return f"{state.chat}.{message.id}.{number}"
