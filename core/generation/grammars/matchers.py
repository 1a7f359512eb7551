"""The program's side of the processes that match grammars: it starts, uses and ends them."""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import cast

from msgspec import Struct

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.generation.grammars.channel import (
    DONE,
    DROP,
    END,
    LOWER,
    START,
    TABLE,
    Channel,
    packed,
)
from llm_lite.core.generation.grammars.matcher import (
    ForcedTexts,
    Matcher,
    MatcherLimits,
    Process,
    Readers,
)
from llm_lite.core.records import asdict
from llm_lite.core.text.sandbox.process import SandboxError, start_worker
from llm_lite.core.text.tokenizer import Tokenizer

FORKS = hasattr(os, "fork") and hasattr(socket, "send_fds")
_WORKER = "llm_lite.core.generation.grammars.worker"
LIMITS = MatcherLimits()
_START_SECONDS = 60.0  # for a vocabulary too; a busy machine may be this slow
_READ_AT_ONCE = 1 << 16  # bytes
_MOST_BYTES = 1 << 20  # of an answer: the mask of 8 million tokens


class _Vocabulary(Struct, eq=False):
    key: int  # 0: of no model
    texts: ForcedTexts


class Matchers:
    """Starts matchers. For any thread."""

    def __init__(self) -> None:
        self._lock, self._readers = threading.Lock(), Readers()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._channel: Channel | None = None
        self._vocabularies: weakref.WeakKeyDictionary[Tokenizer, _Vocabulary]
        self._vocabularies = weakref.WeakKeyDictionary()
        self._none = _Vocabulary(0, ForcedTexts(None))
        self._loaded: set[int] = set()  # keys of vocabularies that the server process has
        self._keys = self._numbers = 0
        # The next answer's matcher, with the vocabulary that was used last: it is there at once.
        self._spare: tuple[_Vocabulary, Matcher] | None = None

    def start(self, tokenizer: Tokenizer | None) -> Matcher:
        """Return the process of an answer; without a tokenizer it can only compile.
        RequestError."""
        try:
            with self._lock:
                vocabulary = self._vocabulary_of(tokenizer)
                spare = self._take_spare(vocabulary)
                matcher = spare or self._started(tokenizer, vocabulary)
        except (EOFError, OSError, SandboxError) as error:
            raise RequestError(f"no process can be started for a grammar: {error}") from None
        if tokenizer is not None:
            self._readers.submit(partial(self._start_spare, weakref.ref(tokenizer)))
        return matcher

    def _take_spare(self, vocabulary: _Vocabulary) -> Matcher | None:
        if self._spare is None:
            return None
        made_for, spare = self._spare
        if made_for is not vocabulary and vocabulary.key == 0:
            return None
        self._spare = None
        if made_for is vocabulary and spare.limits == LIMITS and spare.is_there():
            return spare
        spare.close()
        return None

    def _start_spare(self, tokenizer: weakref.ref[Tokenizer]) -> None:
        """Start a spare matcher; on a thread of the readers."""
        found = tokenizer()
        with self._lock, suppress(EOFError, OSError, SandboxError):
            if self._spare is None and found is not None:
                vocabulary = self._vocabulary_of(found)
                self._spare = vocabulary, self._started(found, vocabulary)

    def _started(self, tokenizer: Tokenizer | None, vocabulary: _Vocabulary) -> Matcher:
        if not FORKS:
            return self._alone(tokenizer, vocabulary)
        try:
            return self._forked(tokenizer, vocabulary)
        except (EOFError, OSError):  # the server process has ended: another one
            self._end_server()
            return self._forked(tokenizer, vocabulary)

    @property
    def is_used(self) -> bool:
        """Return True once a matcher was requested."""
        return self._control is not None or self._spare is not None

    def warm(self, tokenizer: Tokenizer) -> None:
        """Prepare a tokenizer's vocabulary, in a thread: it takes a second and more for 262,144
        tokens."""
        work = partial(self._warm, weakref.ref(tokenizer))
        threading.Thread(target=work, name="grammar mask: vocabulary", daemon=True).start()

    def close(self) -> None:
        """End the processes; the next answer starts others."""
        with self._lock:
            if self._spare is not None:
                self._spare[1].close()
                self._spare = None
            self._end_server()

    def forget(self) -> None:
        """Forget the processes in a process that was forked from the program: they are not its
        own."""
        self._lock, self._readers = threading.Lock(), Readers()
        if self._control is not None:
            self._control.close()
        self._server = self._control = self._channel = self._spare = None

    def _warm(self, tokenizer: weakref.ref[Tokenizer]) -> None:
        found = tokenizer()
        with suppress(RequestError, LlmLiteError):  # the first answer says what is wrong
            if found is not None:
                self.start(found).close()

    def _vocabulary_of(self, tokenizer: Tokenizer | None) -> _Vocabulary:
        if tokenizer is None:
            return self._none
        known = self._vocabularies.get(tokenizer)
        if known is None:
            self._keys += 1
            texts = ForcedTexts(tokenizer)
            known = self._vocabularies[tokenizer] = _Vocabulary(self._keys, texts)
        return known

    # Where the system can fork:

    def _forked(self, tokenizer: Tokenizer | None, vocabulary: _Vocabulary) -> Matcher:
        control = self._running()
        self._drop_vocabularies()
        if tokenizer is not None and vocabulary.key not in self._loaded:
            data = packed([vocabulary.key]) + _vocabulary_data(tokenizer)
            self._call(TABLE, data)
            self._loaded.add(vocabulary.key)
        self._numbers += 1
        limits = LIMITS  # read once: a test may change them while the process starts
        request = {"number": self._numbers, "key": vocabulary.key, **asdict(limits)}
        ours, theirs = socket.socketpair()
        try:
            cast(Channel, self._channel).send(START, json.dumps(request).encode())
            socket.send_fds(control, [b"\0"], [theirs.fileno()])
            self._answer()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader = _SocketReader(ours)
        return Matcher(
            Channel(reader.read, ours.sendall, _MOST_BYTES),
            vocabulary.texts,
            Process(
                is_readable=reader.is_readable,
                can_be_watched=True,
                is_there=partial(_is_open, ours),
                interrupt=partial(_shut, ours),
                lower=partial(self._lower, self._numbers),
                exit_code=partial(self._ended, self._numbers),
                close=ours.close,
                readers=self._readers,
            ),
            limits,
        )

    def _running(self) -> socket.socket:
        """Return the socket of the server process, which is started if there is none."""
        if self._control is None:
            ours, theirs = socket.socketpair()
            try:
                server = start_worker(_WORKER, theirs.fileno(), subprocess.DEVNULL)
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
            ours.settimeout(_START_SECONDS)
            self._server, self._control, self._loaded = server, ours, set()
            self._channel = Channel(ours.recv, ours.sendall, _MOST_BYTES)
            self._answer()
        return self._control

    def _drop_vocabularies(self) -> None:
        """Drop the vocabularies of models that are closed."""
        for key in self._loaded - {one.key for one in self._vocabularies.values()}:
            self._call(DROP, packed([key]))
            self._loaded.discard(key)

    def _call(self, kind: int, data: bytes) -> bytes:
        cast(Channel, self._channel).send(kind, data)
        return self._answer()

    def _answer(self) -> bytes:
        kind, data = cast(Channel, self._channel).receive()
        if kind != DONE:
            raise SandboxError(data.decode(errors="replace"))
        return data

    def _lower(self, number: int) -> None:
        with self._lock, suppress(EOFError, OSError, SandboxError):
            if self._control is not None:
                self._call(LOWER, packed([number]))

    def _ended(self, number: int) -> int:
        """End a matcher if it runs and return its exit code."""
        with self._lock, suppress(EOFError, OSError, SandboxError):
            if self._control is not None:
                return int(self._call(END, packed([number])))
        return 0

    def _end_server(self) -> None:
        server, control = self._server, self._control
        self._server = self._control = self._channel = None
        if control is not None:
            control.close()
        if server is not None:
            server.kill()
            server.wait()

    # Where it cannot, each matcher is a process that is started for it:

    def _alone(self, tokenizer: Tokenizer | None, vocabulary: _Vocabulary) -> Matcher:
        limits = LIMITS
        process = _started_alone(tokenizer, limits)
        return Matcher(
            _piped(process),
            vocabulary.texts,
            Process(
                is_readable=lambda seconds: False,
                can_be_watched=False,
                is_there=lambda: process.poll() is None,
                interrupt=process.kill,
                lower=lambda: None,
                exit_code=partial(_end_process, process),
                close=partial(_end_process, process),
                readers=self._readers,
            ),
            limits,
        )


def _started_alone(tokenizer: Tokenizer | None, limits: MatcherLimits) -> subprocess.Popen[bytes]:
    """Start a matcher's process and have it prepare its vocabulary, without waiting for that."""
    process = start_worker(_WORKER)
    data = b"" if tokenizer is None else _vocabulary_data(tokenizer)
    try:
        channel = _piped(process)
        channel.send(TABLE, data)
        channel.send(START, json.dumps(asdict(limits)).encode())
    except BaseException:
        _end_process(process)
        raise
    return process


def _piped(process: subprocess.Popen[bytes]) -> Channel:
    assert process.stdin is not None and process.stdout is not None
    reads, writes = process.stdout, process.stdin

    def write(data: bytes) -> None:
        writes.write(data)
        writes.flush()

    return Channel(partial(_read_some, reads.fileno()), write, _MOST_BYTES)


def _read_some(descriptor: int, count: int) -> bytes:
    return os.read(descriptor, count)


def _end_process(process: subprocess.Popen[bytes]) -> int:
    process.kill()  # one that has ended keeps its code
    code = process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    return code


class _SocketReader:
    """Reads all that has come at once: a mask costs one call of the system beside a step."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._came = connection, b""

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes once there are some; b"" at the end. OSError."""
        came = self._came or self._connection.recv(_READ_AT_ONCE)
        self._came = came[count:]
        return came[:count]

    def is_readable(self, seconds: float) -> bool:
        """Return True if `read` would not wait; waits up to `seconds` for it."""
        try:
            self._came = self._came or self._connection.recv(_READ_AT_ONCE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return seconds > 0 and self._has_more_within(seconds)
        except OSError:  # it is closed: reading says so
            pass
        return True

    def _has_more_within(self, seconds: float) -> bool:
        try:
            poll = select.poll()
            poll.register(self._connection, select.POLLIN)
            return bool(poll.poll(1e3 * seconds))
        except (OSError, ValueError):
            return True


def _is_open(connection: socket.socket) -> bool:
    """Return True if the other side waits for a message."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _vocabulary_data(tokenizer: Tokenizer) -> bytes:
    """Return the vocabulary in the format that `worker.MatcherVocabulary` reads."""
    everything = range(tokenizer.vocab_size)
    tokens = [tokenizer.token_bytes(token) for token in everything]
    head = {
        "count": len(tokens),
        "ends": sorted(tokenizer.end_ids),
        "special": [token for token in everything if tokenizer.is_special(token)],
        "bos": tokenizer.bos_id,
    }
    text = json.dumps(head).encode()
    return b"".join((packed([len(text)]), text, packed(map(len, tokens)), *tokens))


_shared = Matchers()
atexit.register(_shared.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.forget)


def matchers() -> Matchers:
    """Return the one source of matchers of this program."""
    return _shared
