"""The program's side of the processes that match grammars: they are started, asked, and ended."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import threading
import weakref
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, field
from functools import partial
from typing import cast

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.generation.grammars.channel import (
    DONE,
    DROP,
    END,
    START,
    TABLE,
    Channel,
    packed,
)
from llm_lite.core.generation.grammars.matcher import Matcher, MatcherLimits, Readers
from llm_lite.core.records import dataclass
from llm_lite.core.text.sandbox.process import SandboxError, start_worker
from llm_lite.core.text.tokenizer import Tokenizer

FORKS = hasattr(os, "fork") and hasattr(socket, "send_fds")
_WORKER = "llm_lite.core.generation.grammars.worker"
LIMITS = MatcherLimits()
_START_SECONDS = 60.0  # for a vocabulary too; a busy machine may be this slow
_MOST_BYTES = 1 << 20  # of an answer: the mask of 8 million tokens
_KEPT_TEXTS = 256  # of which a vocabulary's tokens are remembered


@dataclass(slots=True, eq=False)
class _Vocabulary:
    key: int
    texts: OrderedDict[str, bytes] = field(default_factory=OrderedDict)  # and their tokens


class Matchers:
    """Starts matchers. For any thread."""

    def __init__(self) -> None:
        self._lock, self._readers = threading.Lock(), Readers()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._channel: Channel | None = None
        self._vocabularies: weakref.WeakKeyDictionary[Tokenizer, _Vocabulary]
        self._vocabularies = weakref.WeakKeyDictionary()
        self._loaded: set[int] = set()  # keys of vocabularies that the server process has
        self._keys = self._numbers = 0
        self._spare: tuple[int, subprocess.Popen[bytes]] | None = None  # without a server process

    def start(self, tokenizer: Tokenizer | None) -> Matcher:
        """The process of an answer; without a tokenizer it can only compile. RequestError."""
        try:
            with self._lock:
                vocabulary = self._vocabulary_of(tokenizer)
                start = self._forked if FORKS else self._alone
                try:
                    return start(tokenizer, vocabulary)
                except (EOFError, OSError):  # the server process has ended: another one
                    self._end_server()
                    return start(tokenizer, vocabulary)
        except (EOFError, OSError, SandboxError) as error:
            raise RequestError(f"no process can be started for a grammar: {error}") from None

    def warm(self, tokenizer: Tokenizer) -> None:
        """Make its vocabulary ready, in a thread: a second and more for 262,144 tokens."""
        work = partial(self._warm, weakref.ref(tokenizer))
        threading.Thread(target=work, name="grammar mask: vocabulary", daemon=True).start()

    def close(self) -> None:
        """End the processes; the next answer starts others."""
        with self._lock:
            self._end_server()
            if self._spare is not None:
                self._spare[1].kill()
                self._spare[1].wait()
                self._spare = None

    def forget(self) -> None:
        """In a process that was forked from the program: the processes are not its own."""
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
            return _Vocabulary(0)
        known = self._vocabularies.get(tokenizer)
        if known is None:
            self._keys += 1
            known = self._vocabularies[tokenizer] = _Vocabulary(self._keys)
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
        request = {"number": self._numbers, "key": vocabulary.key, **asdict(LIMITS)}
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
        return Matcher(
            Channel(ours.recv, ours.sendall, _MOST_BYTES),
            partial(_tokens_of, weakref.ref(tokenizer) if tokenizer else None, vocabulary),
            ours.close,
            partial(_shut, ours),
            partial(self._ended, self._numbers),
            LIMITS,
            self._readers,
        )

    def _running(self) -> socket.socket:
        """The socket of the server process, which is started where there is none."""
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
        """Of models that are closed."""
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

    def _ended(self, number: int) -> int:
        """The code with which a matcher ended; one that runs is ended."""
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

    # Where it cannot: each matcher is a process that is started for it. One waits, with the
    # vocabulary that was used last.

    def _alone(self, tokenizer: Tokenizer | None, vocabulary: _Vocabulary) -> Matcher:
        spare, self._spare = self._spare, None
        if spare is not None and spare[0] != vocabulary.key:
            spare[1].kill()
            spare[1].wait()
            spare = None
        process = spare[1] if spare else _started_alone(tokenizer)
        if tokenizer is not None:
            self._spare = vocabulary.key, _started_alone(tokenizer)
        return Matcher(
            _piped(process),
            partial(_tokens_of, weakref.ref(tokenizer) if tokenizer else None, vocabulary),
            partial(_end_process, process),
            process.kill,
            partial(_end_process, process),
            LIMITS,
            self._readers,
        )


def _started_alone(tokenizer: Tokenizer | None) -> subprocess.Popen[bytes]:
    """A matcher that reads its vocabulary; nobody waits for that here."""
    process = start_worker(_WORKER)
    data = b"" if tokenizer is None else _vocabulary_data(tokenizer)
    try:
        channel = _piped(process)
        channel.send(TABLE, data)
        channel.send(START, json.dumps(asdict(LIMITS)).encode())
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


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _vocabulary_data(tokenizer: Tokenizer) -> bytes:
    """As `worker.Vocabulary` reads it."""
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


def _tokens_of(
    tokenizer: weakref.ref[Tokenizer] | None, vocabulary: _Vocabulary, text: str
) -> bytes:
    """The tokens of a text that must come next; none where the tokenizer fails at it."""
    known = vocabulary.texts.get(text)
    if known is not None:
        return known
    found = tokenizer() if tokenizer else None
    try:
        tokens = packed(found.encode(text, parse_special=False)) if found else b""
    except LlmLiteError:
        tokens = b""
    vocabulary.texts[text] = tokens
    if len(vocabulary.texts) > _KEPT_TEXTS:
        with suppress(KeyError):
            vocabulary.texts.popitem(last=False)
    return tokens


_shared = Matchers()
atexit.register(_shared.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.forget)


def matchers() -> Matchers:
    """The one source of matchers of this program."""
    return _shared
