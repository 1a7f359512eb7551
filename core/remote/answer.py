"""One answer of a server, as the events of the local engine."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from msgspec import Struct, field

from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.messages import (
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    PromptToken,
    StopReason,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.plain_text import quote
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.dialects import Dialect
from llm_lite.core.remote.failures import RemoteError, RemoteStatusError
from llm_lite.core.remote.request_body import RemoteRequest, build_request
from llm_lite.core.remote.sse import EventReader
from llm_lite.core.remote.stream_parser import LONGEST_PIECE, Piece, StreamParser, progress
from llm_lite.core.text.thinking import MARKS

MOST_CHARACTERS = 4 << 20  # characters of an answer: a window has to show them
MOST_TOKENS = 1 << 18
BEHIND_END = 10.0  # seconds that a server may keep silent behind the reason of its end
MOST_REFUSED = 4  # fields that a server does not know, in one answer
_REASONS: dict[str, StopReason] = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("", "stop", "eos", "eos_token", "end_turn", "stop_sequence"), "end"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "end"),
}
_OURS: dict[str, StopReason] = {"role": "role", "repetition": "repetition"}
_CLOSING = MARKS["think"].written[1]


class RemoteAnswer(Struct):
    """An answer of a server. `unknown` are fields of requests that this server has refused before;
    more are added. `prompt` are the prompt's tokens, where they are known."""

    command: Generate
    client: Client
    dialect: Dialect
    model: str
    emit: Callable[[Event], None]
    exchange: Exchange
    unknown: set[str]
    prompt: tuple[PromptToken, ...] = ()
    response: str = ""  # the server's name of the answer, once it is known
    _parser: StreamParser | None = None
    _started: bool = False
    _asked_at: float = 0.0
    _first: float = 0.0
    _last: float = 0.0
    _count: int = 0
    _length: int = 0  # characters
    _thinks: bool = False  # the last piece was a thought
    _notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Emit all events to the last, GenerationFinished. LlmLiteError where there is none; what
        came until then was emitted."""
        self._asked_at = time.monotonic()
        reason: StopReason = "stopped"
        note = ""
        try:
            self._stream_all(build_request(self.command, self.model, self.dialect))
            reason, note = self._ending()
        except CancelledError:
            pass
        except LlmLiteError:
            self._close_thought()
            raise
        self._finish(reason, note)

    def _stream_all(self, asked: RemoteRequest) -> None:
        for _ in range(MOST_REFUSED):
            body = {k: v for k, v in asked.body.items() if k not in self.unknown}
            try:
                self._stream(asked, body)
                return
            except RemoteStatusError as error:
                refused = refused_fields(error, asked, self.unknown)
                if self._started or not refused:
                    raise
                self.unknown |= refused
        raise RemoteError(f"{self.client.address.host} refuses what is asked in too many ways")

    def _stream(self, asked: RemoteRequest, body: dict[str, object]) -> None:
        host = self.client.address.host
        reader, parser = EventReader(host), StreamParser(host)
        self._parser = parser
        is_done = False
        with closing(self.client.stream(asked.path, body, self.exchange, reader)) as events:
            for data in _until_broken(events, parser, self.exchange):
                if self.exchange.cancelled:  # what has come already may be much
                    break
                is_done = data.strip() == "[DONE]"
                if is_done:
                    break
                read = progress(data)
                if read is not None:
                    self._start(False, read[1])
                    self.emit(PrefillProgress(*read))
                for piece in parser.feed(data, reader.kind):
                    self._take_piece(piece, asked)
                    if self.exchange.cancelled:  # an event may have a million characters
                        break
                self.response = parser.response
        if self.exchange.cancelled:  # a connection that is ended here looks as one that ended
            raise CancelledError("stopped")
        for call in parser.calls():
            self._close_thought()
            for part in _parts(call):
                self._take_piece(Piece("visible", part, 0, math.nan), asked)
        if reader.damaged:
            self._notes.append(
                f"{host} sent bytes that are no UTF-8: the sign \ufffd stands in their places"
            )
        if not (parser.finish or is_done or parser.is_counted):
            raise RemoteError(f"the answer of {host} was cut off before its end")

    def _take_piece(self, piece: Piece, asked: RemoteRequest) -> None:
        self._length += len(piece.text)
        if self._length > MOST_CHARACTERS:
            raise RemoteError(
                f"{self.client.address.host} sends an answer without an end, expected at most "
                f"{MOST_CHARACTERS >> 20} million characters"
            )
        if self._count >= MOST_TOKENS:
            raise RemoteError(
                f"{self.client.address.host} sends an answer without an end, expected at most "
                f"{MOST_TOKENS:,} tokens"
            )
        if not self._started:
            self._start(piece.kind == "thought", 0)
        if not self._count and asked.begun:
            for part in _parts(asked.begun):
                self._emit_token(Piece("visible", part, 0, math.nan))
        if piece.kind == "visible" and self._thinks:
            self._close_thought()
        # Thoughts behind words are emitted as words: the window folds the first ones only.
        self._thinks = piece.kind == "thought" and (self._thinks or not self._count)
        now = time.monotonic()
        self._first = self._first or now
        self._last, self._count = now, self._count + 1
        self._emit_token(piece)

    def _close_thought(self) -> None:
        """Emit the closing mark of a thought, which a server has taken out and the window needs."""
        if self._thinks:
            self._thinks = False
            self._emit_token(Piece("visible", _CLOSING, 0, math.nan))

    def _emit_token(self, piece: Piece) -> None:
        ttft = (self._first - self._asked_at) * 1e3 if self._count == 1 else 0.0
        self.emit(
            TokenDecoded(
                piece.token,
                piece.text,
                piece.probability,
                self._context_used(),
                piece.alternatives,
                ttft_ms=ttft,
            )
        )

    def _start(self, thinks: bool, total: int) -> None:
        if self._started:
            return
        self._started = True
        use = self._parser.usage if self._parser else None
        prompt = (use.prompt if use else 0) or total or len(self.prompt)
        cached = min(use.cached if use else 0, prompt)
        goes_on = self.command.continue_last or self.command.begin is not None
        thinking = None if goes_on or self.command.raw else Thinking("think", inside=thinks)
        self.emit(GenerationStarted(prompt, cached, self.prompt, thinking))

    def _context_used(self) -> int:
        prompt = self._parser.usage.prompt if self._parser else 0
        return (prompt or len(self.prompt)) + self._count

    def _ending(self) -> tuple[StopReason, str]:
        parser = self._parser
        assert parser is not None
        note = "; ".join(self._notes)
        if parser.finish == "stop" and parser.stop_text:
            known = self.dialect.name == "llm-lite"
            return (_OURS.get(parser.stop_text, "stop string") if known else "stop string"), note
        if (reason := _REASONS.get(parser.finish.lower())) is not None:
            return reason, note
        return "end", f"{parser.host} ended the answer: {quote(parser.finish)}"

    def _finish(self, reason: StopReason, note: str) -> None:
        self._close_thought()
        self._start(False, 0)
        self.emit(GenerationFinished(reason, self._stats(), note))

    def _stats(self) -> GenerationStats:
        if self._parser is None:
            return GenerationStats()
        use = self._parser.usage
        new, seconds = use.new or self._count, self._last - self._first
        measured = (new - 1) / seconds if seconds > 0 and new > 1 else 0.0
        return GenerationStats(
            prompt_tokens=use.prompt or len(self.prompt),
            reused_tokens=use.cached,
            new_tokens=new,
            prefill_tok_s=use.prompt_rate,
            decode_tok_s=use.new_rate or measured,
            ttft_ms=(self._first - self._asked_at) * 1e3 if self._first else 0.0,
            context_used=(use.prompt or len(self.prompt)) + new,
        )


def refused_fields(error: RemoteStatusError, asked: RemoteRequest, known: set[str]) -> set[str]:
    """Return optional fields that a refusal names: the answer can do without them."""
    if error.status not in (400, 422, 500):
        return set()
    found = {name for name in asked.optional if name in error.server_sentence and name not in known}
    if "logprobs" in error.server_sentence or "logits_all" in error.server_sentence:
        found |= {"logprobs", "top_logprobs"} - known
    return found & set(asked.body)


def _until_broken(events: Iterator[str], parser: StreamParser, exchange: Exchange) -> Iterator[str]:
    """Yield events. Behind the end of the answer a connection that breaks is no matter, and one
    that stays open in silence is ended."""
    try:
        while (data := _next(events, exchange if parser.finish else None)) is not None:
            yield data
    except RemoteError:
        if not parser.finish:
            raise


def _next(events: Iterator[str], ended: Exchange | None) -> str | None:
    """Return the next event; None behind the last. `ended` is waited for BEHIND_END at most."""
    if ended is None:
        return next(events, None)
    timer = threading.Timer(BEHIND_END, ended.hang_up)
    timer.daemon = True
    timer.start()
    try:
        return next(events, None)
    finally:
        timer.cancel()


def _parts(whole: str) -> Iterator[str]:
    return (whole[at : at + LONGEST_PIECE] for at in range(0, len(whole), LONGEST_PIECE))
