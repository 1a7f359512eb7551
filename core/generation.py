"""One answer from request to last token: what the engine reports of it, and how fast it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from core import prompt
from core.errors import CancelledError, FileError, UnsupportedError
from core.exec.executor import StopCheck
from core.loading import ModelFile, Runner
from core.messages import (
    Alternative,
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
from core.sampling import Choice
from core.tokenizer import StreamDecoder, Tokenizer

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

    def run(self, runner: Runner) -> None:
        """Generate to the end and say how it ended.

        DeviceError passes through with `produced` kept: call again with another runner.
        """
        ids = self._prompt(runner)
        try:
            reason = self._tokens(runner, ids)
        except CancelledError:
            reason = "stopped"
        self._finish(runner, reason)

    def fail(self, message: str) -> None:
        self.emit(GenerationFinished(self.command.request, "error", GenerationStats(), message))

    def _prompt(self, runner: Runner) -> list[int]:
        file, command = runner.model_file, self.command
        if command.raw:
            encoded = prompt.encode_raw(file.tokenizer, command.messages)
        else:
            encoded = encode(file, command.messages, command.continue_last)
        if self._decoder is None:
            self._decoder = self._primed_decoder(file.tokenizer)
            self._start(runner, encoded)
        return encoded.ids + self.produced

    def _start(self, runner: Runner, encoded: prompt.Encoded) -> None:
        ids, forced = encoded.ids, self.command.forced
        self._prompt_tokens = len(ids)
        self._reused = runner.session.reusable(ids)
        begun = [*ids, *forced[:-1]]
        self._fed = len(begun) - runner.session.reusable(begun)
        labels = labelled(runner.model_file.tokenizer, encoded)
        self.emit(GenerationStarted(self.command.request, len(ids), self._reused, labels))

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
        )
        for choice in choices:
            if choice.best:  # the forced tokens before come at once
                self._note_time(started)
            self.produced.append(choice.token)
            ended = bool(choice.best) and choice.token in ends
            self._say(tokenizer, session.context_used, choice, ended)
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

    def _say(self, tokenizer: Tokenizer, used: int, choice: Choice, ended: bool) -> None:
        assert self._decoder is not None
        # Half a character at the end of a stopped answer is not shown, and completed by Continue.
        text = self._decoder.flush() if ended else self._decoder.feed(choice.token)
        best = alternatives(tokenizer, choice.best)
        request, token = self.command.request, choice.token
        self.emit(TokenDecoded(request, token, text, choice.probability, used, best))

    def _finish(self, runner: Runner, reason: StopReason) -> None:
        message = ""
        if reason == "context":
            message = (
                f"the context of {runner.session.context} tokens is full; "
                "start a new chat or load the model with a larger context"
            )
        stats = self._stats(runner)
        self.emit(GenerationFinished(self.command.request, reason, stats, message))

    def _stats(self, runner: Runner) -> GenerationStats:
        decode_seconds = self._last_token - self._first_token
        after_first = self._timed - 1
        return GenerationStats(
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused,
            new_tokens=len(self.produced),
            prefill_tok_s=self._fed / self._prefill_seconds if self._prefill_seconds else 0.0,
            decode_tok_s=after_first / decode_seconds if decode_seconds > 0 else 0.0,
            ttft_ms=1e3 * (self._first_token - self.requested) if self._first_token else 0.0,
            context_used=runner.session.context_used,
            peak_rss_bytes=peak_rss_bytes(),
        )


def read(command: Read, emit: Emit, should_stop: StopCheck, runner: Runner) -> None:
    """Prefill the conversation, its last answer left open, and say what the cache holds."""
    messages, request = command.messages, command.request
    spoken = bool(messages) and messages[-1].role == "assistant" and bool(messages[-1].content)
    encoded = encode(runner.model_file, messages, spoken)
    with suppress(CancelledError):
        runner.session.prefill(
            encoded.ids,
            should_stop,
            lambda done, total: emit(PrefillProgress(request, done, total)),
        )
    known = labelled(runner.model_file.tokenizer, encoded)[: runner.session.context_used]
    emit(ConversationRead(request, known))


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
