"""A tool server's process and its standard streams, with bounds on all that it writes.

The `mcp` package brings a transport of its own; it keeps a line of any length and lets a server
write as fast as it can. Here a line and the rate of lines have limits, what is no
message is passed over, and the process ends with all that it has started (`supervisor.py`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ServerSpec
from llm_lite.core.plain_text import one_line, shortened
from llm_lite.core.tools.commands import split_command
from llm_lite.core.tools.received import MessageReader
from llm_lite.core.tools.supervisor import STARTED

MOST_LINE = 4 << 20  # bytes of a message
BURST = 16 << 20  # bytes that a server may write at once,
RATE = 2 << 20  # and a second from then on
LINE_COST = 256  # bytes that each line counts more: blank ones would cost seconds of processor
_STRAY_SHOWN = 5  # lines that are no messages, in the log
LOG_LINES = 200  # of a server's standard error
LOG_CHARS = 500  # of such a line
GRACE = 0.5  # seconds to end by itself, once its input is closed
_ENDING = 2.0  # seconds until its supervisor has killed it, or its code is known
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))


class ServerProcess:
    """The process of a tool server. `on_line` is called with each line of its standard error,
    and not after the first LOG_LINES."""

    def __init__(self, spec: ServerSpec, on_line: Callable[[str], None]) -> None:
        self.spec = spec
        self.problem = ""  # why it was ended; "" where it ended by itself
        self.code: int | None = None
        self.pid = 0  # of its supervisor; of itself where there is none
        self._control: socket.socket | None = None  # closing it ends all that the server started
        self.finished = asyncio.Event()
        self._on_line = on_line
        self._allowance = float(BURST)
        self._counted_at = time.monotonic()
        self._stray = 0

    @property
    def ending(self) -> str:
        """Return a sentence on why it ended."""
        if self.problem:
            return self.problem
        return "it ended" if self.code is None else f"it ended with code {self.code}"

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams that `mcp.ClientSession` reads and writes. RequestError if the server
        cannot be started."""
        import anyio
        from mcp.shared.message import SessionMessage

        process = await self._begin()
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, to_session)),
            asyncio.create_task(self._write(process, from_session)),
            asyncio.create_task(self._read_errors(process)),
        ]
        try:
            yield incoming, outgoing
        finally:
            await self._end(process)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()

    async def _begin(self) -> asyncio.subprocess.Process:
        from mcp.client.stdio import get_default_environment

        command = split_command(self.spec.command)
        environment = get_default_environment() | dict(self.spec.environment)
        process = None
        try:
            if not hasattr(os, "fork"):
                process = await _started(command, environment)
                self.pid = process.pid
                return process
            self._control, theirs = socket.socketpair()
            with theirs:
                words = [sys.executable, "-I", "-S", "-B", _SUPERVISOR, str(theirs.fileno())]
                process = await _started([*words, *command], environment, (theirs.fileno(),))
            self.pid = process.pid
            await self._check_started()
            return process
        except (OSError, ValueError) as error:
            self._give_up(process)
            reason = getattr(error, "strerror", None) or str(error)
            raise RequestError(f"{command[0]} cannot be started: {reason}") from None
        except BaseException:  # it is stopped meanwhile
            self._give_up(process)
            raise

    def _give_up(self, process: asyncio.subprocess.Process | None) -> None:
        self.kill()
        if process is not None:
            _close(process)

    async def _check_started(self) -> None:
        """Raise OSError if the program cannot be run."""
        assert self._control is not None
        self._control.setblocking(False)
        report = await asyncio.get_running_loop().sock_recv(self._control, 16)
        if report.isdigit():
            raise OSError(int(report), os.strerror(int(report)))
        if report != STARTED:
            raise OSError("the process that supervises it has ended")

    async def _read(self, process: asyncio.subprocess.Process, session: Any) -> None:
        import anyio
        import mcp_types
        from mcp.shared.message import SessionMessage

        assert process.stdout is not None
        reader = MessageReader(self._note_stray)
        try:
            while line := await process.stdout.readline():
                self._count(len(line) + LINE_COST)
                for found in reader.read(line):
                    self._count(LINE_COST)
                    try:
                        message = mcp_types.jsonrpc_message_adapter.validate_python(
                            found, by_name=False
                        )
                    except ValueError:
                        self._note_stray(_decoded(line))
                        continue
                    await session.send(SessionMessage(message))
        except RequestError as error:
            self.problem = str(error)
        except ValueError:
            self.problem = f"it wrote a line of more than {MOST_LINE >> 20} MiB"
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            with suppress(TimeoutError):
                self.code = await asyncio.wait_for(process.wait(), _ENDING)
            self.finished.set()
            session.close()  # requests that wait end now

    def _count(self, size: int) -> None:
        now = time.monotonic()
        self._allowance += RATE * (now - self._counted_at) - size
        self._allowance, self._counted_at = min(self._allowance, float(BURST)), now
        if self._allowance < 0:
            raise RequestError(f"it wrote more than {BURST >> 20} MiB without a pause")

    def _note_stray(self, line: str) -> None:
        """Note what is no message: servers print and greet where only messages belong."""
        self._stray += 1
        if self._stray <= _STRAY_SHOWN:
            self._on_line(f"no message: {_shown(line)}")
        elif self._stray == _STRAY_SHOWN + 1:
            self._on_line("what else it writes that is no message is not shown")

    async def _write(self, process: asyncio.subprocess.Process, session: Any) -> None:
        assert process.stdin is not None
        with suppress(OSError, ConnectionError):
            async for message in session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        """Read standard error to its end, as a full pipe would stop the server."""
        assert process.stderr is not None
        count, begun = 0, b""
        while chunk := await process.stderr.read(1 << 16):
            try:
                self._count(len(chunk))
            except RequestError as error:
                self.problem = self.problem or str(error)
                self.kill()  # then its output ends, too
                return
            if count > LOG_LINES:
                continue
            *lines, begun = (begun + chunk).split(b"\n")
            begun = begun[: LOG_CHARS * 4]
            for line in lines:
                count += 1
                if count <= LOG_LINES and line.strip():
                    self._on_line(_shown(_decoded(line)))
                elif count == LOG_LINES + 1:
                    self._on_line("what it says from here on is not shown")
        if begun.strip() and count < LOG_LINES:
            self._on_line(_shown(_decoded(begun)))

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """End the process with all that it has started."""
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(process.wait(), 0.0 if self.problem else GRACE)
        self.kill()
        with suppress(TimeoutError, asyncio.CancelledError):
            self.code = await asyncio.wait_for(process.wait(), _ENDING)
        if process.returncode is None:  # as where its supervisor was stopped
            with suppress(OSError):
                process.kill()
        _close(process)

    def kill(self) -> None:
        """Kill the server with all that it has started, by the supervisor; from any thread."""
        if self._control is not None:
            self._control.close()
        elif self.pid:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGTERM)


async def _started(
    command: list[str], environment: dict[str, str], files: tuple[int, ...] = ()
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        limit=MOST_LINE,
        env=environment,
        start_new_session=True,
        pass_fds=files,
    )


def _close(process: asyncio.subprocess.Process) -> None:
    """Close a process's pipes: else they are closed when it is collected, perhaps after its
    loop."""
    getattr(process, "_transport").close()  # noqa: B009 - no public name leads to it


def _decoded(line: bytes) -> str:
    return line[: LOG_CHARS * 4].decode(errors="replace")


def _shown(line: str) -> str:
    return shortened(one_line(line[: LOG_CHARS * 4].strip()), LOG_CHARS)
