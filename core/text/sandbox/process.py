"""The program's side of the sandbox: one process for all, started early, kept warm.

Requests wait for their turn, as `core.turns` has it: those of the window's own chat come first.
What is large has a process of its own, at a lower priority, so that what is quick waits for nothing
that takes long; it ends where it was not used for a while. A request that takes too long, or whose
process dies, is an error of the file it came from; the process is started again at once. A wait for
an answer can be cancelled.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from llm_lite.core.errors import CancelledError
from llm_lite.core.records import asdict
from llm_lite.core.text.sandbox.frames import read_frame, write_frame
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.turns import Places, client_here

_START_SECONDS = 30.0  # a busy machine may be this slow; then something is wrong
_MOST_ANSWER_BYTES = 256 << 20
_MAIN = """
import importlib, sys
worker, sys.path[:] = sys.argv[1], sys.argv[2:]
importlib.import_module(worker).main()
"""
_WORKER = "llm_lite.core.text.sandbox.worker"
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PATH", "TZ")
_ROOT = Path(sys.modules["llm_lite"].__path__[0]).resolve().parent  # where the package lies


_POLL_SECONDS = 0.02  # how long a cancellation may go unnoticed
_LARGE = 50_000  # characters or bytes: the library takes some 40 ms for them
_LARGE_PRIORITY = 10  # a niceness, which leaves the processor to others
_LARGE_SECONDS = 60.0  # unused, after which the process of what is large ends

_thread = threading.local()


@contextmanager
def cancelled_by(check: Callable[[], bool], *, ends_process: bool = True) -> Iterator[None]:
    """Cancel this thread's requests to the sandbox with CancelledError once `check` returns True.
    Without `ends_process` a request that is being answered is waited for: its process is shared,
    and starting another one would delay other requests."""
    before = getattr(_thread, "check", None), getattr(_thread, "ends_process", True)
    _thread.check, _thread.ends_process = check, ends_process
    try:
        yield
    finally:
        _thread.check, _thread.ends_process = before


def give_up_when_cancelled() -> None:
    check = getattr(_thread, "check", None)
    if check is not None and check():
        raise CancelledError("cancelled")


class SandboxError(Exception):
    """The request could not be answered: the text says why, as in "it takes more than 2 s"."""


class SandboxProcess:
    """The sandbox's process, for any thread; one request at a time. `worker` is the module that
    runs over there: its `main` serves, as `serving` has it. `niceness` is that of the process; it
    ends `unused_seconds` after its last request, or with the program."""

    def __init__(
        self, worker: str = _WORKER, *, niceness: int = 0, unused_seconds: float = 0.0
    ) -> None:
        self._worker, self._niceness = worker, niceness
        self._unused_seconds = unused_seconds
        self.places = Places(1)
        self._lock = threading.Lock()
        self._ending: threading.Timer | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def warm(self) -> None:
        """Start the process without waiting for it."""
        threading.Thread(target=self._warm, name="sandbox", daemon=True).start()

    def call(
        self, action: str, request: Mapping[str, Any], data: bytes = b"", *, limits: Limits
    ) -> dict[str, Any]:
        """Return the sandbox's answer. SandboxError; CancelledError as of `cancelled_by`."""
        message = {**request, "action": action, "limits": asdict(limits)}
        give_up_when_cancelled()
        with self.places.taken(client_here(), _POLL_SECONDS, give_up_when_cancelled):
            while not self._lock.acquire(timeout=_POLL_SECONDS):  # it is being started
                give_up_when_cancelled()
            try:
                self._stay()
                reader = _AnswerReader(self._running(), message, data)
                return self._wait(reader, limits.wall_seconds, limits)
            finally:
                self._end_later()
                self._lock.release()

    def close(self) -> None:
        """End the process; the next request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end_later(self) -> None:
        if self._unused_seconds:
            self._ending = threading.Timer(self._unused_seconds, self._end_if_unused)
            self._ending.daemon = True
            self._ending.start()

    def _end_if_unused(self) -> None:
        with self._lock:
            if self._ending is threading.current_thread():
                self.close()

    def _warm(self) -> None:
        with self._lock, suppress(SandboxError):  # the first request says what is wrong
            self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, started if there is none."""
        child = self._child
        if child is None or child.poll() is not None:
            self._child = child = start_worker(self._worker)
            lower_priority(child.pid, self._niceness)
            self._wait(_AnswerReader(child), _START_SECONDS, None)
        return child

    def _wait(self, reader: _AnswerReader, seconds: float, limits: Limits | None) -> dict[str, Any]:
        """Return the answer; if none comes in time, the process is started again."""
        deadline = time.monotonic() + seconds
        reader.start()
        try:
            while reader.is_alive() and time.monotonic() < deadline:
                reader.join(_POLL_SECONDS)
                if getattr(_thread, "ends_process", True):
                    give_up_when_cancelled()
            if reader.answer is None:
                raise SandboxError(self._failure(reader, seconds, limits))
            return reader.answer
        except BaseException:
            self.close()
            reader.join()
            self.warm()
            raise

    def _failure(self, reader: _AnswerReader, seconds: float, limits: Limits | None) -> str:
        if reader.is_alive():
            return f"it takes more than {seconds:g} s"
        return _how_it_ended(reader.child.wait(), limits)


class Sandbox:
    """A process for what is quick, and one for what is large, both of the same `worker`."""

    def __init__(self, worker: str = _WORKER, *, large: int = _LARGE) -> None:
        self._least_large = large
        self.quick = SandboxProcess(worker)
        self.large = SandboxProcess(worker, niceness=_LARGE_PRIORITY, unused_seconds=_LARGE_SECONDS)

    def warm(self) -> None:
        """Start the process of what is quick without waiting for it."""
        self.quick.warm()

    def call(
        self,
        action: str,
        request: Mapping[str, Any],
        data: bytes = b"",
        *,
        limits: Limits,
        size: int = 0,
    ) -> dict[str, Any]:
        """Return the answer to a request of so many characters, as `SandboxProcess.call` does."""
        process = self.large if size >= self._least_large else self.quick
        return process.call(action, request, data, limits=limits)

    def close(self) -> None:
        """End the processes; the next request starts another."""
        self.quick.close()
        self.large.close()


class _AnswerReader(threading.Thread):
    """Writes a request, if there is one, and reads the answer; ends when the process does."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        message: dict[str, Any] | None = None,
        data: bytes = b"",
    ) -> None:
        super().__init__(name="sandbox reader", daemon=True)
        self.child, self._message, self._data = child, message, data
        self.answer: dict[str, Any] | None = None

    def run(self) -> None:
        requests = cast(BinaryIO, self.child.stdin)
        answers = cast(BinaryIO, self.child.stdout)
        try:
            if self._message is not None:
                write_frame(requests, self._message, self._data)
            frame = read_frame(answers, _MOST_ANSWER_BYTES)
        except (OSError, ValueError):  # the process has ended
            return
        if frame is not None:
            self.answer = frame[0]


def start_worker(
    worker: str, stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a process whose main function is that of the module `worker`. SandboxError."""
    paths = [str(_ROOT), *(path for path in sys.path if path)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _MAIN, worker, *paths],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT.anchor,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"no process can be started for it: {error}") from None


def lower_priority(process: int, niceness: int) -> None:
    """Let a process that was just started have the processor after others, where a system can."""
    if niceness and hasattr(os, "setpriority"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process, niceness)


def _environment() -> dict[str, str]:
    """Return what Python itself may need to start, the time zone, and nothing of the person's."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "TOKENIZERS_PARALLELISM": "false"}


def _how_it_ended(code: int, limits: Limits | None) -> str:
    if limits is None:
        return f"the process for it cannot be started (it ended with code {code})"
    if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
        return f"it takes more than {limits.cpu_seconds:g} s of processor time"
    return (
        f"its process ended with code {code}; it may take {limits.memory_bytes >> 20} MiB of memory"
    )


_shared = Sandbox()
atexit.register(_shared.close)


def sandbox() -> Sandbox:
    """Return the one sandbox of this program."""
    return _shared
