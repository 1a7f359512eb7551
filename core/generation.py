"""One answer from request to last token: what the engine reports of it, and how fast it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core import prompt
from core.errors import CancelledError, FileError, UnsupportedError
from core.exec.executor import StopCheck
from core.loading import Runner
from core.messages import (
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    StopReason,
    TokenDecoded,
)
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
            ids = prompt.encode_raw(file.tokenizer, command.messages)
        else:
            try:
                ids = prompt.encode_chat(
                    file.tokenizer,
                    file.template,
                    command.messages,
                    continue_last=command.continue_last,
                )
            except UnsupportedError as error:  # the template's own fault
                raise FileError(file.path, str(error)) from error
        if self._decoder is None:
            self._decoder = self._primed_decoder(file.tokenizer)
            self._prompt_tokens = len(ids)
            self._reused = runner.session.reusable(ids)
            self.emit(GenerationStarted(command.request, len(ids), self._reused))
        return ids + self.produced

    def _primed_decoder(self, tokenizer: Tokenizer) -> StreamDecoder:
        decoder = StreamDecoder(tokenizer)
        if self.command.continue_last:
            for token in self.command.messages[-1].tokens:
                decoder.feed(token)
        return decoder

    def _tokens(self, runner: Runner, ids: list[int]) -> StopReason:
        session, ends = runner.session, runner.model_file.tokenizer.end_ids
        left = self.command.sampling.max_new_tokens - len(self.produced)
        if left <= 0:
            return "length"
        started = time.perf_counter()
        choices = session.generate(
            ids,
            replace(self.command.sampling, max_new_tokens=left),
            ends,
            self.should_stop,
            lambda done, total: self.emit(PrefillProgress(self.command.request, done, total)),
        )
        for choice in choices:
            self._note_time(started)
            self.produced.append(choice.token)
            ended = choice.token in ends
            self._say(session.context_used, choice.token, choice.probability, ended)
            if ended:
                return "end"
            if self.should_stop():
                return "stopped"
        return "length" if len(self.produced) >= self.command.sampling.max_new_tokens else "context"

    def _note_time(self, started: float) -> None:
        self._last_token = time.perf_counter()
        if not self.produced:
            self._first_token = self._last_token
            self._prefill_seconds = self._first_token - started

    def _say(self, used: int, token: int, probability: float, ended: bool) -> None:
        assert self._decoder is not None
        # Half a character at the end of a stopped answer is not shown, and completed by Continue.
        text = self._decoder.flush() if ended else self._decoder.feed(token)
        self.emit(TokenDecoded(self.command.request, token, text, probability, used))

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
        fed = self._prompt_tokens - self._reused
        decode_seconds = self._last_token - self._first_token
        after_first = len(self.produced) - 1
        return GenerationStats(
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused,
            new_tokens=len(self.produced),
            prefill_tok_s=fed / self._prefill_seconds if self._prefill_seconds else 0.0,
            decode_tok_s=after_first / decode_seconds if decode_seconds > 0 else 0.0,
            ttft_ms=1e3 * (self._first_token - self.requested) if self._first_token else 0.0,
            context_used=runner.session.context_used,
            peak_rss_bytes=peak_rss_bytes(),
        )


def peak_rss_bytes() -> int:
    """The most memory this process ever had resident; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux
