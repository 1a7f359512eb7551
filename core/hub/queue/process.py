"""The program's side of a stage: a process of its own, which ends with the program.

It gets its task as a line of JSON on standard input and says how it goes in lines of JSON on
standard output. The end of its standard input tells it to stop: the system closes that when the
program is killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import one_line

WORKER = "llm_lite.core.convert.stages.worker"
_MAIN = """
import importlib, sys
worker, sys.path[:] = sys.argv[1], sys.argv[2:]
importlib.import_module(worker).main()
"""
_PATIENCE = 5.0  # seconds, in which a stage that is to stop takes away what is half made
_PATIENCE_OF_END = 2.0  # the same where the program ends: the next run takes it away otherwise
_LONGEST_LINE = 1 << 16  # bytes

OnMessage = Callable[[Mapping[str, Any] | None], None]


class StageProcess:
    """The process of a stage: `on_message` is called with each message, and None when the process
    has ended, from another thread.

    RequestError where no process can be started.
    """

    def __init__(
        self, task: Mapping[str, Any], on_message: OnMessage, worker: str = WORKER
    ) -> None:
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-X", "utf8", "-c", _MAIN, worker, *filter(None, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is for the program
            )
        except (OSError, ValueError) as error:
            raise RequestError(f"no process can be started for it: {error}") from None
        self._on_message = on_message
        self._stop_at: float | None = None
        self._reader = threading.Thread(target=self._read, name="model queue reader", daemon=True)
        self._reader.start()
        stdin = cast(IO[bytes], self._child.stdin)
        with contextlib.suppress(OSError):  # it has ended, which `on_message` reports
            stdin.write(json.dumps(task).encode() + b"\n")
            stdin.flush()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    def stop(self) -> None:
        """Ask it to end; call it again and again until it has: it is killed in the end."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + _PATIENCE
            with contextlib.suppress(OSError):
                cast(IO[bytes], self._child.stdin).close()
        elif time.monotonic() > self._stop_at:
            self._child.kill()

    def close(self) -> None:
        """Stop it and wait for that, not long: the program ends."""
        self.stop()
        try:
            self._child.wait(_PATIENCE_OF_END)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()

    @property
    def ending(self) -> str:
        """Return a sentence on how the process ended, for one that sent no message of it."""
        code = self._child.wait()
        if code < 0:
            return (
                f"its process was killed by signal {-code}, as the system does where memory is "
                "short; Retry goes on from there"
            )
        return f"its process ended with code {code} and gave no reason"

    def _read(self) -> None:
        out = cast(IO[bytes], self._child.stdout)
        with out:
            while line := out.readline(_LONGEST_LINE):
                with contextlib.suppress(ValueError, TypeError):
                    self._on_message({**json.loads(line)})
        self._child.wait()
        self._on_message(None)


def text_of(message: Mapping[str, Any], key: str, longest: int = 2000) -> str:
    """Return a text of a message, fit for a row."""
    return one_line(str(message.get(key, "")))[:longest]
