"""One answer from request to last token: what the engine reports of it, and how fast it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from llm_lite.core.errors import CancelledError, FileError, UnsupportedError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation import prompt
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import PLAIN, PrefillOptions, Session
from llm_lite.core.loading.loader import Runner
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import (
    Alternative,
    CacheRewritten,
    CacheStatus,
    ChatMessage,
    ConversationRead,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    PromptToken,
    Read,
    StopReason,
    TokenDecoded,
)
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer

Emit = Callable[[Event], None]


@dataclass(slots=True)
class Generation:
    """The progress of one `Generate`; survives a change of executor in the middle of it."""

    command: Generate
    emit: Emit
    should_stop: StopCheck
    requested: float = field(default_factory=time.perf_counter)
    produced: list[int] = field(default_factory=list)
    _decoder: StreamDecoder | None = None
    _prompt_tokens: int = 0
    _reused: int = 0
    _fed: int = 0  # tokens prefilled before the first one that was judged
    _timed: int = 0  # tokens that took a step
    _prefill_seconds: float = 0.0
    _first_token: float = 0.0
    _last_token: float = 0.0
    _labels: tuple[PromptToken, ...] = ()
    _reading: PrefillOptions = PLAIN

    def run(self, runner: Runner) -> None:
        """Generate to the end and say how it ended.

        What stops a step passes through with `produced` kept: call again, with another runner.
        """
        runner.session.on_rewritten = lambda: self._rewritten(runner)
        try:
            reason = self._tokens(runner, self._prompt(runner))
        except CancelledError:
            reason = "stopped"
        finally:
            runner.session.on_rewritten = lambda: None
        self._finish(runner, reason)

    def fail(self, message: str) -> None:
        self.emit(GenerationFinished(self.command.request, "error", GenerationStats(), message))

    def _prompt(self, runner: Runner) -> list[int]:
        file, command = runner.model_file, self.command
        context = runner.session.context
        prompt.check_size(file.tokenizer, command.messages, context, command.overflow)
        if command.raw:
            encoded = prompt.encode_raw(file.tokenizer, command.messages)
        else:
            encoded = encode(file, command.messages, command.continue_last)
        if self._decoder is None:
            self._decoder = self._primed_decoder(file.tokenizer)
            self._start(runner, encoded)
        else:
            self._reading = replace(self._reading, resumed=True)
        return encoded.ids + self.produced

    def _start(self, runner: Runner, encoded: prompt.Encoded) -> None:
        ids, forced = encoded.ids, self.command.forced
        session, tokenizer = runner.session, runner.model_file.tokenizer
        self._prompt_tokens = len(ids)
        self._reading = _reading(self.command, tokenizer, encoded)
        begun = [*ids, *forced[:-1]]
        prepared = session.prepare(begun, self._reading)
        self._reused = min(prepared.reused, len(ids) - 1)
        gone = sum(last - first for first, last in prepared.forgotten)
        self._fed = len(begun) - gone - prepared.reused
        self._labels = labelled(tokenizer, encoded)
        self.emit(GenerationStarted(self.command.request, len(ids), self._reused, self._labels))
        if prepared.forgotten:
            self._say_forgotten(self._labels, prepared.forgotten)
        self.emit(cache_status(session, self._reused))

    def _rewritten(self, runner: Runner) -> None:
        tokenizer, messages = runner.model_file.tokenizer, self.command.messages
        owner = len(messages) - 1 if self.command.continue_last else len(messages)
        said = (PromptToken(t, text_of(tokenizer, t), owner) for t in self.produced)
        gone = tuple((gap.first, gap.last) for gap in runner.session.cache.gaps)
        self._say_forgotten((*self._labels, *said), gone)

    def _say_forgotten(
        self, told: tuple[PromptToken, ...], gone: tuple[tuple[int, int], ...]
    ) -> None:
        """Which of all tokens the model sees from now on, and which it does not."""
        seen = list(told)
        for first, last in reversed(gone):
            del seen[first:last]
        self.emit(CacheRewritten(self.command.request, tuple(seen), gone))

    def _primed_decoder(self, tokenizer: Tokenizer) -> StreamDecoder:
        decoder = StreamDecoder(tokenizer)
        if self.command.continue_last:
            for token in self.command.messages[-1].tokens:
                decoder.feed(token)
        return decoder

    def _tokens(self, runner: Runner, ids: list[int]) -> StopReason:
        session, tokenizer = runner.session, runner.model_file.tokenizer
        ends, forced = tokenizer.end_ids, self.command.forced[len(self.produced) :]
        left = self._left()
        if left <= 0:
            return "length"
        started = time.perf_counter()
        choices = session.generate(
            ids,
            replace(self.command.sampling, max_new_tokens=left),
            ends,
            self.should_stop,
            lambda done, total: self.emit(PrefillProgress(self.command.request, done, total)),
            forced,
            self._reading,
        )
        for choice in choices:
            if choice.best:  # the forced tokens before come at once
                self._note_time(started)
            self.produced.append(choice.token)
            ended = bool(choice.best) and choice.token in ends
            self._say(tokenizer, session, choice, ended)
            if ended:
                return "end"
            if self.should_stop():
                return "stopped"
        return "length" if self._left() <= 0 else "context"

    def _left(self) -> int:
        """New tokens still allowed; forced ones are not new."""
        new = max(0, len(self.produced) - len(self.command.forced))
        return self.command.sampling.max_new_tokens - new

    def _note_time(self, started: float) -> None:
        self._last_token = time.perf_counter()
        self._timed += 1
        if self._timed == 1:
            self._first_token = self._last_token
            self._prefill_seconds = self._first_token - started

    def _say(
        self, tokenizer: Tokenizer, session: Session, choice: TokenChoice, ended: bool
    ) -> None:
        assert self._decoder is not None
        # Half a character at the end of a stopped answer is not shown, and completed by Continue.
        text = self._decoder.flush() if ended else self._decoder.feed(choice.token)
        best = alternatives(tokenizer, choice.best)
        request, token = self.command.request, choice.token
        used, step_ms = session.context_used, 1e3 * session.step_seconds
        self.emit(TokenDecoded(request, token, text, choice.probability, used, best, step_ms))

    def _finish(self, runner: Runner, reason: StopReason) -> None:
        message = ""
        if reason == "context":
            message = (
                f"the context of {runner.session.context} tokens is full; "
                "start a new chat, choose a larger context or let the beginning be forgotten"
            )
        stats = self._stats(runner)
        self.emit(GenerationFinished(self.command.request, reason, stats, message))
        self.emit(cache_status(runner.session, self._reused))

    def _stats(self, runner: Runner) -> GenerationStats:
        decode_seconds = self._last_token - self._first_token
        after_first = self._timed - 1
        context_used = runner.session.context_used
        return GenerationStats(
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused,
            new_tokens=len(self.produced),
            prefill_tok_s=self._fed / self._prefill_seconds if self._prefill_seconds else 0.0,
            decode_tok_s=after_first / decode_seconds if decode_seconds > 0 else 0.0,
            ttft_ms=1e3 * (self._first_token - self.requested) if self._first_token else 0.0,
            context_used=context_used,
            peak_rss_bytes=peak_rss_bytes(),
            read_bytes=token_read_bytes(runner.executor.program.plans[0], context_used),
        )


def read(command: Read, emit: Emit, should_stop: StopCheck, runner: Runner) -> None:
    """Prefill the conversation, its last answer left open, and say what the cache holds."""
    messages, request = command.messages, command.request
    spoken = bool(messages) and messages[-1].role == "assistant" and bool(messages[-1].content)
    prompt.check_size(runner.model_file.tokenizer, messages, runner.session.context)
    encoded = encode(runner.model_file, messages, spoken)
    reading = PrefillOptions(name=_name(messages))
    reused = runner.session.prepare(encoded.ids, reading).reused
    with suppress(CancelledError):
        runner.session.prefill(
            encoded.ids,
            should_stop,
            lambda done, total: emit(PrefillProgress(request, done, total)),
            reading,
        )
    known = labelled(runner.model_file.tokenizer, encoded)[: runner.session.context_used]
    emit(ConversationRead(request, known))
    emit(cache_status(runner.session, reused))


def cache_status(session: Session, reused: int = 0) -> CacheStatus:
    pool, cache = session.pool, session.cache
    return CacheStatus(
        length=len(cache),
        context=session.context,
        reused=reused,
        pool_used=pool.used,
        pool_budget=pool.budget,
        prefixes=pool.listed(),
        saved_bytes=reused * cache.position_bytes,
    )


def _reading(command: Generate, tokenizer: Tokenizer, encoded: prompt.Encoded) -> PrefillOptions:
    head = _first_turn(command.messages, tokenizer, encoded)
    return PrefillOptions(command.overflow, head, name=_name(command.messages))


def _first_turn(
    messages: Sequence[ChatMessage], tokenizer: Tokenizer, encoded: prompt.Encoded
) -> int:
    """How many first tokens are the system prompt, the first question and its answer."""
    asked = [index for index, message in enumerate(messages) if message.role == "user"]
    if len(asked) < 2:
        return len(encoded.ids)
    inside = (i for i, owner in enumerate(encoded.owners) if 0 <= owner < asked[1])
    end = max(inside, default=-1) + 1
    return end + (end < len(encoded.ids) and encoded.ids[end] in tokenizer.end_ids)


def _name(messages: Sequence[ChatMessage]) -> str:
    """What a conversation is called: how its first question begins."""
    first = next((m.content for m in messages if m.role == "user"), "")
    line = " ".join(first[:400].split())
    return line if len(line) <= 48 else line[:47] + "…"


def encode(file: ModelFile, messages: Sequence[ChatMessage], continue_last: bool) -> prompt.Encoded:
    """A conversation in the model's own template; FileError where that is at fault."""
    try:
        return prompt.encode_chat(
            file.tokenizer, file.template, messages, continue_last=continue_last
        )
    except UnsupportedError as error:  # the template's own fault
        raise FileError(file.path, str(error)) from error


def labelled(tokenizer: Tokenizer, encoded: prompt.Encoded) -> tuple[PromptToken, ...]:
    """The tokens with their texts and owners, by position."""
    return tuple(
        PromptToken(token, text_of(tokenizer, token), owner)
        for token, owner in zip(encoded.ids, encoded.owners, strict=True)
    )


def alternatives(
    tokenizer: Tokenizer, best: Sequence[tuple[int, float]]
) -> tuple[Alternative, ...]:
    return tuple(Alternative(token, text_of(tokenizer, token), p) for token, p in best)


def text_of(tokenizer: Tokenizer, token: int) -> str:
    """What the token stands for, by itself: U+FFFD for a part of a character."""
    return tokenizer.token_bytes(token).decode(errors="replace")


def peak_rss_bytes() -> int:
    """The most memory this process ever had resident; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux
