"""The processes that match grammars. Started by `matchers` only.

Where standard input is a socket, the process is a server: it keeps vocabularies, and forks a
matcher for each socket that it is given. Where it is a pipe, the process itself is the matcher.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.generation.grammars.channel import (
    ADVANCE,
    BEGIN,
    DONE,
    DROP,
    END,
    LOWER,
    PROBLEM,
    REFUSED,
    START,
    TABLE,
    TOKENIZE,
    TOKENS,
    Channel,
    Message,
    packed,
    unpacked,
)
from llm_lite.core.generation.grammars.forms import (
    check_form,
    form_of,
    parser_limits,
    shortened,
)
from llm_lite.core.plain_text import quote
from llm_lite.core.text.sandbox.limits import allow_memory, allow_stack, confine
from llm_lite.core.text.sandbox.serving import take_streams

_MOST_BYTES = 1 << 30  # of a message, which comes from the program
_REAP_SECONDS = 1.0  # how long a matcher that ended stays in the system's table
_NICENESS = 10  # of a matcher that takes long to compile
_LONGEST_FORCED = 256  # characters of a text that must come next, whose tokens are asked


def main() -> None:
    is_server = stat.S_ISSOCK(os.fstat(0).st_mode)
    requests, answers = take_streams()
    confine()
    if is_server:
        control = socket.socket(fileno=os.dup(requests.fileno()))
        requests.close()
        _Server(control).serve()
    else:
        reads, writes = requests.fileno(), answers.fileno()
        channel = Channel(lambda n: os.read(reads, n), lambda data: _write(writes, data), 1 << 30)
        vocabulary, limits = channel.receive().data, json.loads(channel.receive().data)
        _match(channel, MatcherVocabulary(vocabulary) if vocabulary else None, limits)


class MatcherVocabulary:
    """The vocabulary in the form of llguidance. Byte-level and SentencePiece's tokens alike are the
    bytes that they stand for.

    `data`: uint32 bytes of a JSON object; that object, with "ends" and "special" tokens, "bos" and
    the "count" of tokens; uint32 bytes of each token; the tokens.
    """

    def __init__(self, data: bytes) -> None:
        at = 4 + unpacked(data[:4])[0]
        head = json.loads(data[4:at])
        lengths = unpacked(data[at : at + 4 * head["count"]])
        at += 4 * head["count"]
        self.tokens: list[bytes] = []
        for length in lengths:
            self.tokens.append(data[at : at + length])
            at += length
        self.ends: list[int] = head["ends"]
        self.eos_token_id = self.ends[0] if self.ends else 0
        self.bos_token_id: int | None = head["bos"]
        self.special_token_ids: list[int] = head["special"]
        self._named = {self.tokens[token]: token for token in self.special_token_ids}
        self.channel: Channel | None = None  # of the matcher that this process is
        self.known: dict[str, list[int]] = {}  # texts and their tokens
        wrapper = TokenizerWrapper(self)
        self.table = LLTokenizer(wrapper, eos_token=self.ends or None)
        self.tokens = wrapper.tokens = []  # the table has them

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of what must come next: the library allows the first of them only. A
        long text is cut, and the rest spelled as the table does. Refuses bytes, which the library
        tries first."""
        if not isinstance(text, str):
            raise TypeError("expected text")
        if self.channel is None:
            return []
        if text in self.known:
            return self.known[text]
        head, rest = text[:_LONGEST_FORCED], text[_LONGEST_FORCED:]
        self.channel.send(TOKENIZE, head.encode())
        found = self.channel.receive()
        if found.kind != TOKENS or not found.data:
            return self.table.greedy_tokenize(text)
        return [*unpacked(found.data), *(self.table.greedy_tokenize(rest) if rest else ())]

    def token_id(self, name: str) -> int:
        """Return the token that a grammar names, as <name> or <[number]>. RequestError."""
        if name.startswith("<["):
            number = int(name[2:-2])
            if number < self.table.vocab_size:
                return number
            raise RequestError(
                f"the grammar names the token {number}: the model has {self.table.vocab_size}"
            )
        known = self._named.get(name.encode())
        if known is not None:
            return known
        found = self.table.greedy_tokenize(name)
        if len(found) != 1:
            raise RequestError(f"the grammar names the token {quote(name)}, which the model lacks")
        return int(found[0])


class _Server:
    """Executes one message of the program at a time; none of them takes long."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._channel = Channel(control.recv, control.sendall, _MOST_BYTES)
        self._vocabularies: dict[int, MatcherVocabulary] = {}
        self._matchers: dict[int, int] = {}  # number -> process
        self._codes: dict[int, int] = {}  # number -> how it ended, until the program has asked

    def serve(self) -> None:
        gc.disable()  # vocabularies are a million objects and no cycle, and shared by the matchers
        self._channel.send(DONE)
        try:
            while True:
                ready = select.select([self._control], [], [], self._wait())[0]
                self._reap()
                if ready:
                    self._channel.send(*self._execute(self._channel.receive()))
        except (EOFError, OSError):  # the program has ended
            for process in self._matchers.values():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            os._exit(0)

    def _wait(self) -> float | None:
        return _REAP_SECONDS if self._matchers else None

    def _execute(self, message: Message) -> Message:
        try:
            if message.kind == TABLE:
                key = unpacked(message.data[:4])[0]
                self._vocabularies[key] = MatcherVocabulary(message.data[4:])
            elif message.kind == DROP:
                self._vocabularies.pop(unpacked(message.data)[0], None)
            elif message.kind == START:
                self._start(json.loads(message.data))
            elif message.kind == LOWER:
                self._lower(unpacked(message.data)[0])
            elif message.kind == END:
                number = unpacked(message.data)[0]
                return Message(DONE, str(self._end(number)).encode())
        except (EOFError, OSError):
            raise
        except BaseException as error:  # panics of native code are no Exception
            return Message(PROBLEM, (shortened(str(error)) or type(error).__name__).encode())
        return Message(DONE, b"")

    def _start(self, request: dict[str, Any]) -> None:
        """Fork a matcher for the socket that comes with the next byte."""
        _, (theirs, *_), _, _ = socket.recv_fds(self._control, 1, 1)
        process = os.fork()
        if process:
            os.close(theirs)
            self._matchers[request["number"]] = process
            return
        try:
            self._control.close()
            connection = socket.socket(fileno=theirs)
            channel = Channel(connection.recv, connection.sendall, _MOST_BYTES)
            _match(channel, self._vocabularies.get(request["key"]), request)
        finally:
            os._exit(0)

    def _lower(self, number: int) -> None:
        """Let a matcher have the processor after others from now on."""
        process = self._matchers.get(number)
        if process is not None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process, _NICENESS)

    def _end(self, number: int) -> int:
        """End a matcher and return how it ended, negative if a signal did it, 0 if that is
        unknown."""
        process = self._matchers.pop(number, None)
        if process is None:
            return self._codes.pop(number, 0)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)  # one that has ended keeps its code
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def _reap(self) -> None:
        for number, process in tuple(self._matchers.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                del self._matchers[number]
                if status:
                    self._codes[number] = os.waitstatus_to_exitcode(status)


class _Matcher:
    """The state of an answer in a grammar, in the worker process."""

    def __init__(self, channel: Channel, vocabulary: MatcherVocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._matcher: LLMatcher | None = None
        if vocabulary is not None:
            vocabulary.channel = channel

    def begin(self, data: bytes) -> Message:
        """Compile a schema or grammar."""
        request = json.loads(data)
        kind, text = request["kind"], request["text"]
        if self._vocabulary is None:
            check_form(kind, text, form_of(kind, text))
            return Message(DONE, b"")
        grammar = form_of(kind, text, self._vocabulary.token_id)
        self._vocabulary.known = request["known"]
        table = self._vocabulary.table
        self._matcher = LLMatcher(table, grammar, log_level=0, limits=parser_limits())
        if self._matcher.is_error():
            check_form(kind, text, grammar)
            problem = shortened(self._matcher.get_error())
            return _problem(f"the {kind} cannot be used: {problem}")
        return Message(DONE, b"")

    def advance(self, data: bytes) -> Message:
        """Take tokens, and find the tokens that may come next, as bits: those that end an answer
        only where it is complete."""
        matcher, vocabulary = self._matcher, self._vocabulary
        if matcher is None or vocabulary is None:
            return _problem("the grammar is not compiled")
        for index, token in enumerate(unpacked(data)):
            if not matcher.consume_token(token):
                problem = matcher.get_error()
                if "doesn't satisfy the grammar" in problem:
                    return Message(REFUSED, packed([index]))
                return _problem(f"the grammar cannot go on: {shortened(problem)}")
        mask = bytearray(matcher.compute_bitmask())
        if matcher.is_error():
            return _problem(f"the grammar cannot go on: {shortened(matcher.get_error())}")
        is_complete = matcher.is_accepting()
        for token in vocabulary.ends:
            if is_complete:
                mask[token >> 3] |= 1 << (token & 7)
            else:
                mask[token >> 3] &= 0xFF ^ (1 << (token & 7))
        if mask.count(0) == len(mask):
            return _problem("the grammar allows no token of this model here: the answer ends")
        return Message(DONE, bytes(mask))


def _match(channel: Channel, vocabulary: MatcherVocabulary | None, limits: dict[str, Any]) -> None:
    """Serve one answer, until the other side closes."""
    allow_memory(limits["memory_bytes"])
    allow_stack(limits["stack_bytes"])
    if vocabulary is not None:
        _touch(vocabulary)
    matcher = _Matcher(channel, vocabulary)
    with suppress(EOFError, OSError):
        while True:
            kind, data = channel.receive()
            try:
                if kind == BEGIN:
                    with _processor_time(limits["compile_seconds"]):
                        reply = matcher.begin(data)
                elif kind == ADVANCE:
                    with _processor_time(limits["mask_seconds"]):
                        reply = matcher.advance(data)
                else:
                    reply = _problem("the message is of no known kind")
            except (EOFError, OSError):
                raise
            except LlmLiteError as error:
                reply = _problem(str(error))
            except BaseException as error:  # panics of native code are no Exception
                problem = shortened(str(error)) or type(error).__name__
                reply = _problem(f"the grammar cannot be used: {problem}")
            channel.send(*reply)


def _touch(vocabulary: MatcherVocabulary) -> None:
    """Use what any answer uses, so that the system has copied those pages before one waits."""
    grammar = form_of(
        "JSON schema", '{"type": "object", "properties": {"a": {"enum": ["b", "c"]}}}'
    )
    matcher = LLMatcher(vocabulary.table, grammar, log_level=0, limits=parser_limits())
    matcher.compute_bitmask()


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    """Limit processor time: more of it ends the process by SIGPROF; without such a limit, the
    program's clock does."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _problem(sentence: str) -> Message:
    return Message(PROBLEM, sentence.encode(errors="replace"))


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
