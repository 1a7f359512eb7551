"""The program's side of the sandbox: one process for all, started early, kept warm.

A request that takes too long, or whose process dies, is an error of the file it came from; the
process is started again at once. Whatever waits for an answer can be interrupted from another
thread.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.errors import CancelledError
from core.sandbox.frames import read_frame, write_frame
from core.sandbox.limits import Limits

_START_SECONDS = 30.0  # a busy machine may be this slow; then something is wrong
_MOST_ANSWER_BYTES = 256 << 20
_MAIN = "import sys; sys.path[:] = sys.argv[1:]; from core.sandbox.worker import main; main()"
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PATH", "TZ")
_ROOT = Path(__file__).resolve().parents[2]  # where the package `core` lies


class SandboxError(Exception):
    """The request could not be answered: the text says why, as in "it takes more than 2 s"."""


class SandboxProcess:
    """For any thread; one request at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard = threading.Lock()  # of the three below
        self._child: subprocess.Popen[bytes] | None = None
        self._is_busy = False
        self._interrupted = False

    def warm(self) -> None:
        """Start the process without waiting for it."""
        threading.Thread(target=self._warm, name="sandbox", daemon=True).start()

    def call(
        self, action: str, request: Mapping[str, Any], data: bytes = b"", *, limits: Limits
    ) -> dict[str, Any]:
        """The answer of the sandbox. SandboxError, or CancelledError after `interrupt`."""
        message = {**request, "action": action, "limits": asdict(limits)}
        with self._lock:
            try:
                return self._exchange(self._running(), message, data, limits)
            finally:
                with self._guard:
                    self._is_busy = self._interrupted = False

    def interrupt(self) -> None:
        """End the request that is under way, if one is: its caller gets CancelledError."""
        with self._guard:
            if self._is_busy and self._child is not None:
                self._interrupted = True
                self._child.kill()

    def close(self) -> None:
        with self._guard:
            child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()

    def _warm(self) -> None:
        with self._lock:
            try:
                self._running()
            except SandboxError:  # the first request says so
                return
            finally:
                with self._guard:
                    self._is_busy = self._interrupted = False

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, which is then busy; started where there is none."""
        child = self._child
        started = child is None or child.poll() is not None
        if started:
            child = _start()
        assert child is not None
        with self._guard:
            self._child, self._is_busy = child, True
        if started:
            self._wait(child, _Reader(child), _START_SECONDS, "it does not start")
        return child

    def _exchange(
        self, child: subprocess.Popen[bytes], message: dict[str, Any], data: bytes, limits: Limits
    ) -> dict[str, Any]:
        reader = _Reader(child, message, data)
        return self._wait(child, reader, limits.wall_seconds, limits=limits)

    def _wait(
        self,
        child: subprocess.Popen[bytes],
        reader: _Reader,
        seconds: float,
        late: str = "",
        limits: Limits | None = None,
    ) -> dict[str, Any]:
        reader.start()
        reader.join(seconds)
        is_late = reader.is_alive()
        if is_late:
            child.kill()
            reader.join()
        if reader.answer is not None:
            return reader.answer
        child.kill()
        code = child.wait()
        with self._guard:
            self._child = None
            interrupted = self._interrupted
        self.warm()
        if interrupted:
            raise CancelledError("it was interrupted")
        if is_late:
            raise SandboxError(late or f"it takes more than {seconds:g} s")
        raise SandboxError(_how_it_ended(code, limits))


class _Reader(threading.Thread):
    """Writes a request, if there is one, and reads the answer; ends when the process does."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        message: dict[str, Any] | None = None,
        data: bytes = b"",
    ) -> None:
        super().__init__(name="sandbox reader", daemon=True)
        self._child, self._message, self._data = child, message, data
        self.answer: dict[str, Any] | None = None

    def run(self) -> None:
        requests = cast(BinaryIO, self._child.stdin)
        answers = cast(BinaryIO, self._child.stdout)
        try:
            if self._message is not None:
                write_frame(requests, self._message, self._data)
            frame = read_frame(answers, _MOST_ANSWER_BYTES)
        except (OSError, ValueError):  # the process has ended
            return
        if frame is not None:
            self.answer = frame[0]


def _start() -> subprocess.Popen[bytes]:
    paths = [str(_ROOT), *(path for path in sys.path if path)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _MAIN, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT.anchor,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"no process can be started for it: {error}") from None


def _environment() -> dict[str, str]:
    """What Python itself may need to start, the time zone, and nothing of the person's."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "TOKENIZERS_PARALLELISM": "false"}


def _how_it_ended(code: int, limits: Limits | None) -> str:
    limit = limits.as_text() if limits is not None else "nothing"
    if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
        return f"it takes more than {limit.split(' of ')[0]} of processor time"
    return f"its process ended with code {code}; it may take {limit}"


_shared = SandboxProcess()
atexit.register(_shared.close)


def sandbox() -> SandboxProcess:
    """The one sandbox of this program."""
    return _shared
