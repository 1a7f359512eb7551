"""One answer's matcher, a process apart: what it is asked, and how it ended."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.channel import (
    ADVANCE,
    BEGIN,
    PROBLEM,
    REFUSED,
    TOKENIZE,
    TOKENS,
    Channel,
    packed,
    unpacked,
)
from llm_lite.core.records import dataclass

MOST_AT_ONCE = 256  # matchers that are asked at once: answers that run, and requests that are read


@dataclass(frozen=True, slots=True)
class MatcherLimits:
    """Of one answer's schema or grammar. An honest one takes milliseconds and a few MiB."""

    compile_seconds: float = 3.0  # of processor time
    mask_seconds: float = 2.0  # of processor time, for the tokens that may come next in one place
    wall_seconds: float = 60.0  # of a process that hangs, and where processor time has no limit
    memory_bytes: int = 256 << 20
    stack_bytes: int = 64 << 20


class RefusedError(Exception):
    """A token does not fit the grammar: `index` among those that were taken."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class Matcher:
    """One answer's process. For one thread; `close` is for any."""

    def __init__(
        self,
        channel: Channel,
        tokens_of: Callable[[str], bytes],
        close: Callable[[], object],
        interrupt: Callable[[], object],
        exit_code: Callable[[], int],
        limits: MatcherLimits,
        readers: Readers,
    ) -> None:
        """`interrupt` makes a thread that reads from the process return, `exit_code` ends it."""
        self._readers = readers
        self._channel, self._tokens_of = channel, tokens_of
        self._close, self._interrupt, self._exit_code = close, interrupt, exit_code
        self._lock = threading.Lock()
        self._is_reading = self._is_closed = False
        self._limits = limits
        self._deadline = 0.0  # of what is asked
        self._finalizer = weakref.finalize(self, close)

    def begin(self, kind: str, text: str, tokens: Sequence[int] | None) -> Future[bytes]:
        """Compile the text of a "JSON schema" or "grammar"; then as `advance`, unless `tokens` is
        None."""
        request = json.dumps({"kind": kind, "text": text}).encode()
        messages = [(BEGIN, request)]
        if tokens is not None:
            messages.append((ADVANCE, packed(tokens)))
        return self._ask(messages, kind)

    def advance(self, tokens: Sequence[int], kind: str) -> Future[bytes]:
        """Take these tokens; the result is the mask of those that may follow. RefusedError;
        RequestError where they cannot be found within the limits."""
        return self._ask([(ADVANCE, packed(tokens))], kind)

    def end_if_late(self) -> None:
        """A process that hangs is ended; whoever waits for it gets an error."""
        if time.monotonic() > self._deadline:
            self._interrupt()

    def close(self) -> None:
        """The process ends, also while it computes."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._is_reading:  # the thread that reads closes it
                self._interrupt()
                return
        self._finalizer()

    def _ask(self, messages: list[tuple[int, bytes]], kind: str) -> Future[bytes]:
        self._deadline = time.monotonic() + self._limits.wall_seconds
        with self._lock:
            self._is_reading = not self._is_closed
        # What is sent is read at once, unless the process has ended: then the reader says how.
        with suppress(OSError, ValueError):
            for message in messages:
                self._channel.send(*message)
        asked = [number for number, _ in messages]
        return self._readers.submit(partial(self._read, asked, kind))

    def _read(self, asked: Sequence[int], kind: str) -> bytes:
        """What the last of these messages is answered with. On a thread of the readers."""
        data = b""
        try:
            for number in asked:
                phase = number
                data = self._read_one()
            return data
        except (EOFError, OSError, ValueError):
            code = self._exit_code()
            raise RequestError(_how_it_ended(code, kind, phase, self._limits)) from None
        finally:
            with self._lock:
                self._is_reading, closed = False, self._is_closed
            if closed:
                self._exit_code()
                self._finalizer()

    def _read_one(self) -> bytes:
        while True:
            found, data = self._channel.receive()
            if found == TOKENIZE:
                self._channel.send(TOKENS, self._tokens_of(data.decode(errors="replace")))
            elif found == PROBLEM:
                raise RequestError(data.decode(errors="replace"))
            elif found == REFUSED:
                raise RefusedError(unpacked(data)[0])
            else:
                return data


def _how_it_ended(code: int, kind: str, asked: int, limits: MatcherLimits) -> str:
    work, seconds = "to compile it", limits.compile_seconds
    if asked == ADVANCE:
        work, seconds = "to find what may come next", limits.mask_seconds
    if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
        return f"the {kind} is too costly: {work} takes more than {seconds:g} s of processor time"
    if hasattr(signal, "SIGBUS") and code in (-signal.SIGSEGV, -signal.SIGBUS):
        return (
            f"the {kind} is nested too deeply, or its references are: {work} takes more than "
            f"{limits.stack_bytes >> 20} MiB of stack"
        )
    memory = f"{limits.memory_bytes >> 20} MiB of memory"
    if code == -signal.SIGABRT:
        return f"the {kind} is too costly: {work} takes more than {memory}"
    return (
        f"the {kind} is too costly: {work} takes more than {limits.wall_seconds:g} s, or than "
        f"{memory} (its process ended with code {code})"
    )


class Readers:
    """Threads that wait for processes. They keep nobody from ending the program."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[bytes], Callable[[], bytes]]]
        self._work = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, work: Callable[[], bytes]) -> Future[bytes]:
        done: Future[bytes] = Future()
        self._work.put((done, work))
        if not self._idle.acquire(blocking=False) and self._count < MOST_AT_ONCE:
            self._count += 1
            threading.Thread(target=self._run, name="grammar mask", daemon=True).start()
        return done

    def _run(self) -> None:
        while True:
            done, work = self._work.get()
            try:
                done.set_result(work())
            except BaseException as error:  # whoever waits for it says it
                done.set_exception(error)
            del done, work
            self._idle.release()
