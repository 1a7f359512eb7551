"""Tool servers, run over MCP in a thread of its own, whose events are polled.

The `mcp` package is imported in that thread, when the first server is started: it takes more than
half a second.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct, field

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ServerSpec, ToolSpec
from llm_lite.core.plain_text import one_line, quote, shortened
from llm_lite.core.tools.declared import checked
from llm_lite.core.tools.json_values import JsonProblem, kind_of
from llm_lite.core.tools.received import result_of
from llm_lite.core.tools.transport import ServerProcess

_Done = TypeVar("_Done")
MOST_TOOLS = 512  # of a server
MOST_PAGES = 128  # of a server's list of tools
_LAST_WORDS = 0.5  # seconds for calls of a server that has ended
_MOMENT = 0.05  # seconds, in which it shows that a server has ended, not only its output
_SETTLING = 0.1  # seconds, in which a server may say several times that its tools have changed


class ServerReady(Struct, frozen=True):
    server: str
    tools: tuple[ToolSpec, ...]


class ServerEnded(Struct, frozen=True):
    server: str
    problem: str = ""  # a sentence; "" where a person has stopped it


class ServerLogged(Struct, frozen=True):
    """A line for the log."""

    server: str
    text: str


class CallEnded(Struct, frozen=True):
    call: str
    text: str
    seconds: float
    failed: bool = False


ServerEvent = ServerReady | ServerEnded | ServerLogged | CallEnded


class _Running(Struct):
    task: asyncio.Task[None]
    process: ServerProcess | None = None
    requests: Any = None  # what sends them, once it is ready
    calls: dict[str, asyncio.Task[tuple[str, bool]]] = field(default_factory=dict)
    successor: ServerSpec | None = None  # started once this one, which was stopped, has ended


class ToolServers:
    """The tool servers, for one thread. `wake` is called, on another, for events."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._events: queue.Queue[ServerEvent] = queue.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._servers: dict[str, _Running] = {}  # of the loop's thread

    def start(self, spec: ServerSpec) -> None:
        self._do(lambda: self._start(spec))

    def stop(self, server: str) -> None:
        if self._loop is not None:
            self._do(lambda: self._stop(server))

    def call(
        self, call: str, server: str, tool: str, arguments: dict[str, Any], seconds: float
    ) -> None:
        """Call a tool; CallEnded follows, whatever happens."""
        self._do(lambda: self._begin_call(call, server, tool, arguments, seconds))

    def cancel(self, call: str) -> None:
        if self._loop is not None:
            self._do(lambda: self._cancel(call))

    def poll(self) -> list[ServerEvent]:
        events = []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def close(self, timeout: float = 1.0) -> None:
        """End all servers, with all processes that they have started."""
        if self._loop is None or self._thread is None:
            return
        self._do(self._end_all)
        self._thread.join(timeout)
        for running in list(self._servers.values()):
            if running.process is not None:
                running.process.kill()
        self._loop = self._thread = None

    # On the thread of the loop

    def _do(self, work: Callable[[], None]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, name="tools", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        assert self._loop is not None
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what is wrong is an event
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _emit(self, event: ServerEvent) -> None:
        self._events.put(event)
        self._wake()

    def _spawn(self, work: Coroutine[Any, Any, _Done]) -> asyncio.Task[_Done]:
        assert self._loop is not None
        return self._loop.create_task(work)

    def _start(self, spec: ServerSpec) -> None:
        before = self._servers.get(spec.name)
        if before is not None:
            if before.task.cancelling():
                before.successor = spec
            return
        running = _Running(self._spawn(self._serve(spec)))
        self._servers[spec.name] = running

    def _stop(self, server: str) -> None:
        running = self._servers.get(server)
        if running is None:
            return
        running.successor = None
        if not running.task.cancelling():
            running.task.cancel()

    def _cancel(self, call: str) -> None:
        for running in self._servers.values():
            if call in running.calls:
                running.calls[call].cancel()

    def _end_all(self) -> None:
        self._spawn(self._end())

    async def _end(self) -> None:
        tasks = [running.task for running in self._servers.values()]
        for running in self._servers.values():
            running.successor = None
            running.task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert self._loop is not None
        self._loop.stop()

    async def _serve(self, spec: ServerSpec) -> None:
        """Serve from start to end of a server; ServerEnded is its last event, unless it is started
        again."""
        problem = ""
        try:
            problem = await self._run_server(spec)
        except asyncio.CancelledError:
            problem = ""
        except Exception as error:
            problem = _why(error)
        running = self._servers[spec.name]
        try:
            if running.calls:  # they fail as the connection is closed, and report it
                await asyncio.wait(running.calls.values(), timeout=_LAST_WORDS)
        finally:  # also where it is stopped meanwhile
            for task in list(running.calls.values()):
                task.cancel()
            try:
                await asyncio.gather(*running.calls.values(), return_exceptions=True)
            finally:
                del self._servers[spec.name]
                if running.successor is not None:
                    self._start(running.successor)
                else:
                    self._emit(ServerEnded(spec.name, problem))

    async def _run_server(self, spec: ServerSpec) -> str:
        """Run a server and return a sentence on why it ended."""
        from mcp import ClientSession
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

        running = self._servers[spec.name]
        log_line = _Lines(self._emit, spec.name)
        changed = asyncio.Event()
        process = running.process = ServerProcess(spec, log_line)
        async with process.streams() as (incoming, outgoing):
            # The session answers the server's own requests. Ours go past it: it refuses all tools,
            # or all blocks of a result, for one that is not as the protocol has it.
            asked: Any = JSONRPCDispatcher(incoming, outgoing)
            session = ClientSession(dispatcher=asked, message_handler=_change_noted(changed))
            async with session:
                begun = self._begin_session(session, asked, spec, process)
                tools = await _within(spec.start_seconds, begun, _late(spec))
                running.requests = asked
                self._emit(ServerReady(spec.name, tools))
                looking = self._spawn(self._look_again(asked, spec, changed))
                try:
                    await process.finished.wait()
                finally:
                    looking.cancel()
                    await asyncio.gather(looking, return_exceptions=True)
        return process.ending

    async def _begin_session(
        self, session: Any, asked: Any, spec: ServerSpec, process: ServerProcess
    ) -> tuple[ToolSpec, ...]:
        try:
            await _greet(session, asked, _Lines(self._emit, spec.name))
            return await self._tools(asked, spec.name)
        except Exception as error:
            # The process may have ended, and the session says only that it is closed.
            await asyncio.sleep(_MOMENT)
            if process.finished.is_set():
                raise RequestError(process.ending) from None
            raise RequestError(f"it does not speak MCP: {_why(error)}") from None

    async def _look_again(self, asked: Any, spec: ServerSpec, changed: asyncio.Event) -> None:
        """List the tools again whenever the server says that they have changed."""
        while await changed.wait():
            await asyncio.sleep(_SETTLING)
            changed.clear()
            late = "it says that its tools have changed, and does not list them"
            try:
                tools = await _within(spec.call_seconds, self._tools(asked, spec.name), late)
            except Exception as error:
                self._emit(ServerLogged(spec.name, _why(error)))
                continue
            self._emit(ServerReady(spec.name, tools))

    async def _tools(self, asked: Any, server: str) -> tuple[ToolSpec, ...]:
        """Return the tools of all pages that can be offered; the log tells of the others."""
        found: list[Any] = []
        cursors: list[str] = []
        problem = ""
        while not problem:
            try:
                page = await _page(asked, cursors)
            except Exception as error:
                if not cursors:
                    raise
                problem = f"a page of its tools is missing: {_why(error)}"  # the others are there
                break
            found += page["tools"]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                break
            if cursor in cursors:
                problem = "its list of tools comes to the same page again"
            elif len(cursors) >= MOST_PAGES or len(found) > MOST_TOOLS:
                problem = "its list of tools has no end"
            cursors.append(cursor)
        if len(found) > MOST_TOOLS:
            problem = f"only its first {MOST_TOOLS} tools are listed"
        if problem:
            self._emit(ServerLogged(server, problem))
        return self._checked(server, found[:MOST_TOOLS])

    def _checked(self, server: str, found: list[Any]) -> tuple[ToolSpec, ...]:
        tools: dict[str, ToolSpec] = {}
        for number, tool in enumerate(found, 1):
            where = f"tool {number}"
            try:
                if not isinstance(tool, dict):
                    raise JsonProblem(f"{where}: expected an object, found {kind_of(tool)}")
                parts = tool.get("name"), tool.get("description"), tool.get("inputSchema")
                spec = checked(*parts, where)
            except JsonProblem as problem:
                self._emit(ServerLogged(server, f"a tool is left out: {problem}"))
                continue
            tools.setdefault(spec.name, spec)
        return tuple(tools.values())

    def _begin_call(
        self, call: str, server: str, tool: str, arguments: dict[str, Any], seconds: float
    ) -> None:
        running = self._servers.get(server)
        if running is None or running.requests is None:
            self._emit(CallEnded(call, f"The server {server} is not running.", 0.0, True))
            return
        began = time.monotonic()
        task = self._spawn(self._call_tool(running, tool, arguments, seconds))
        running.calls[call] = task
        task.add_done_callback(lambda done: self._emit_call(running, call, began, done))

    def _emit_call(
        self, running: _Running, call: str, began: float, done: asyncio.Task[tuple[str, bool]]
    ) -> None:
        """Emit the end of a call, also of one that was stopped before it began."""
        running.calls.pop(call, None)
        text, failed = ("The call was stopped.", True) if done.cancelled() else done.result()
        self._emit(CallEnded(call, text, time.monotonic() - began, failed))

    async def _call_tool(
        self, running: _Running, tool: str, arguments: dict[str, Any], seconds: float
    ) -> tuple[str, bool]:
        """Return what a tool answered, and whether it failed."""
        try:
            params = {"name": tool, "arguments": arguments}
            work = running.requests.send_raw_request("tools/call", params)
            late = f"took longer than {seconds:g} s and was given up"
            return result_of(await _within(seconds, work, late))
        except Exception as error:
            process = running.process
            await asyncio.sleep(_MOMENT)
            if process is not None and process.finished.is_set():
                return f"The server ended: {process.ending}", True
            return f"{tool} {_why(error)}", True


class _Lines:
    def __init__(self, emit: Callable[[ServerEvent], None], server: str) -> None:
        self._emit, self._server = emit, server

    def __call__(self, line: str) -> None:
        self._emit(ServerLogged(self._server, line))


async def _greet(session: Any, asked: Any, log_line: Callable[[str], None]) -> None:
    """Carry out the protocol's handshake; what a server leaves out of its answer is not missed."""
    import mcp_types as types
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

    us = {"name": "llm-lite", "version": "0.1"}
    params = {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": us,
    }
    found = await asked.send_raw_request("initialize", params)
    version = found.get("protocolVersion")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        shown = quote(version) if isinstance(version, str) else kind_of(version)
        log_line(f"its version of the protocol is {shown}: it is asked as of the newest known")
        version = LATEST_HANDSHAKE_VERSION
    nobody = types.Implementation(name="server", version="0")
    session.adopt(
        types.InitializeResult(
            protocol_version=version, capabilities=types.ServerCapabilities(), server_info=nobody
        )
    )
    await asked.notify("notifications/initialized", None)


async def _page(asked: Any, cursors: list[str]) -> dict[str, Any]:
    """Return a page of a server's tools: the first one, or that of the last cursor."""
    from mcp import MCPError
    from mcp_types.jsonrpc import METHOD_NOT_FOUND

    params = {"cursor": cursors[-1]} if cursors else {}
    try:
        page: dict[str, Any] = await asked.send_raw_request("tools/list", params)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return {"tools": []}  # of resources or prompts alone
    if not isinstance(page.get("tools"), list):
        raise RequestError(f"tools: expected a list, found {kind_of(page.get('tools'))}")
    return page


def _change_noted(changed: asyncio.Event) -> Any:
    async def handle(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    return handle


async def _within(seconds: float, work: Awaitable[Any], late: str) -> Any:
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise RequestError(late) from None


def _late(spec: ServerSpec) -> str:
    return f"it did not answer within {spec.start_seconds:g} s"


def _why(error: BaseException) -> str:
    """Return the error as one line; of a group of errors the first."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return shortened(one_line(str(error)), 300) or type(error).__name__
