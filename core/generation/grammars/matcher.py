"""The matcher of one answer, a separate process: its requests, and how it ended."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import Struct

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.generation.grammars.channel import (
    ADVANCE,
    BEGIN,
    PROBLEM,
    REFUSED,
    TOKENIZE,
    TOKENS,
    Channel,
    Message,
    packed,
    unpacked,
)
from llm_lite.core.text.tokenizer import Tokenizer

_KEPT_TEXTS = 256  # whose tokens are remembered
_SENT_TEXTS, _LONGEST_SENT = 64, 40  # of them a matcher is given at once, of so many characters
MOST_AT_ONCE = 256  # matchers that are asked at once: answers that run, and requests that are read


class MatcherLimits(Struct, frozen=True):
    """Limits for one answer's schema or grammar. An honest one takes milliseconds and a few MiB."""

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


class Process(Struct, kw_only=True):
    """A matcher's process: how it is watched and ended, by a socket or by pipes."""

    is_readable: Callable[[float], bool]  # whether it has answered; waits for it so many seconds
    can_be_watched: bool  # by that; else a reader waits for each answer
    is_there: Callable[[], bool]
    interrupt: Callable[[], object]  # wakes its reader, as it has ended
    lower: Callable[[], object]  # lets it have the processor after others from now on
    exit_code: Callable[[], int]  # ends it
    close: Callable[[], object]
    readers: Readers


class ForcedTexts:
    """The tokens of texts that only could continue, as matchers requested them. For any thread."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = None if tokenizer is None else weakref.ref(tokenizer)
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, list[int]] = OrderedDict()

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text; [] if the tokenizer fails at it."""
        with self._lock:
            if text in self._tokens:
                self._tokens.move_to_end(text)
                return self._tokens[text]
        tokenizer = self._tokenizer and self._tokenizer()
        try:
            found = tokenizer.encode_inside(text) if tokenizer else []
        except LlmLiteError:
            found = []
        with self._lock:
            self._tokens[text] = found
            if len(self._tokens) > _KEPT_TEXTS:
                self._tokens.popitem(last=False)
        return found

    def known(self) -> dict[str, list[int]]:
        """Return the last texts with their tokens, which a matcher is given at once: answers of one
        schema need the same."""
        with self._lock:
            last = islice(reversed(self._tokens.items()), _SENT_TEXTS)
            return {text: tokens for text, tokens in last if len(text) <= _LONGEST_SENT}


class Matcher:
    """The process of one answer, which does one thing at a time. For one thread.

    What it answers is read when it is needed: no thread is woken beside the model's step. What
    may take longer than that, the tokens of a text and how a process ended, a reader finds.
    """

    def __init__(
        self, channel: Channel, texts: ForcedTexts, process: Process, limits: MatcherLimits
    ) -> None:
        self._channel, self._texts, self._process = channel, texts, process
        self.limits = limits
        self._lock = threading.Lock()  # of who closes it
        self._kind = ""
        self._unanswered: deque[int] = deque()  # numbers of messages
        self._data = b""  # what the last of them is answered with
        self._later: Future[None] | None = None  # that, where a reader finds it
        self._problem: Exception | None = None
        self._deadline = 0.0
        self._is_closed = False
        self._finalizer = weakref.finalize(self, process.close)

    def begin(self, kind: str, text: str, tokens: Sequence[int] | None) -> None:
        """Compile the text of a "JSON schema" or "grammar"; then as `advance`, unless `tokens` is
        None."""
        request = {"kind": kind, "text": text, "known": self._texts.known()}
        messages = [(BEGIN, json.dumps(request).encode())]
        if tokens is not None:
            messages.append((ADVANCE, packed(tokens)))
        self._kind = kind
        self._request(messages)

    def advance(self, tokens: Sequence[int]) -> None:
        """Take these tokens; the result is the mask of those that may follow."""
        self._request([(ADVANCE, packed(tokens))])

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Return True if `result` is there; waits up to `seconds` for it. A process that hangs is
        ended."""
        until = time.monotonic() + seconds
        while self._unanswered or self._later is not None:
            left = max(0.0, until - time.monotonic())
            if self._later is not None:
                is_new = self._is_found(self._later, left)
            elif is_new := self._process.is_readable(left):
                self._read_one()
            if not is_new:
                if time.monotonic() > self._deadline:
                    self._process.interrupt()
                return False
        return True

    def result(self) -> bytes:
        """Return what was requested, once it is there. RefusedError; RequestError where it
        cannot be found within the limits."""
        if self._problem is not None:
            raise self._problem
        return self._data

    def is_there(self) -> bool:
        """Return True if the process of a matcher that was not used yet still waits."""
        return self._process.is_there()

    def lower(self) -> None:
        """Let the process have the processor after others from now on, as it takes long."""
        self._process.lower()

    def close(self) -> None:
        """End the process, also while it computes."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if not self._unanswered and self._later is None:
            self._finalizer()
            return
        self._process.interrupt()
        if self._later is None:
            self._process.readers.submit(self._end)
        else:
            self._later.add_done_callback(lambda _: self._end())

    def _request(self, messages: list[tuple[int, bytes]]) -> None:
        self._deadline = time.monotonic() + self.limits.wall_seconds
        self._problem = None
        self._unanswered.extend(number for number, _ in messages)
        # What is sent is read at once, unless the process has ended: then there is no answer.
        with suppress(OSError, ValueError):
            for message in messages:
                self._channel.send(*message)
        if not self._process.can_be_watched:
            self._read_later(None)

    def _read_one(self) -> None:
        try:
            message = self._channel.receive()
        except (EOFError, OSError, ValueError):
            self._read_later(None)
            return
        if message.kind == TOKENIZE:
            self._read_later(message)
        else:
            self._note(message)

    def _note(self, message: Message) -> None:
        self._unanswered.popleft()
        self._data = message.data
        if message.kind == PROBLEM:
            self._problem = RequestError(message.data.decode(errors="replace"))
        elif message.kind == REFUSED:
            self._problem = RefusedError(unpacked(message.data)[0])
        if self._problem is not None:
            self._unanswered.clear()

    def _read_later(self, first: Message | None) -> None:
        self._later = self._process.readers.submit(partial(self._read, first))

    def _is_found(self, later: Future[None], seconds: float) -> bool:
        try:
            later.exception(seconds)
        except NotYetError:
            return False
        self._later = None
        return True

    def _read(self, message: Message | None) -> None:
        """Read all answers, the first of them perhaps read already; on a thread of the readers."""
        try:
            while self._unanswered:
                message = message or self._channel.receive()
                if message.kind == TOKENIZE:
                    tokens = self._texts.tokens(message.data.decode(errors="replace"))
                    self._channel.send(TOKENS, packed(tokens))
                else:
                    self._note(message)
                message = None
        except (EOFError, OSError, ValueError):
            code = self._process.exit_code()
            self._problem = RequestError(
                _how_it_ended(code, self._kind, self._unanswered[0], self.limits)
            )
            self._unanswered.clear()

    def _end(self) -> None:
        self._process.exit_code()
        self._finalizer()


def _how_it_ended(code: int, kind: str, request: int, limits: MatcherLimits) -> str:
    work, seconds = "to compile it", limits.compile_seconds
    if request == ADVANCE:
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
    """Threads that wait for processes, and do not keep the program from ending."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[None], Callable[[], None]]]
        self._work = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, work: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        self._work.put((done, work))
        if not self._idle.acquire(blocking=False) and self._count < MOST_AT_ONCE:
            self._count += 1
            threading.Thread(target=self._run, name="grammar mask", daemon=True).start()
        return done

    def _run(self) -> None:
        while True:
            done, work = self._work.get()
            try:
                work()
                done.set_result(None)
            except BaseException as error:  # raised where it is waited for
                done.set_exception(error)
            del done, work
            self._idle.release()
