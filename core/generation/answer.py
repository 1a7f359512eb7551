"""An answer from request to last token: what it tells after each step, and how fast it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

from llm_lite.core.errors import CancelledError, FileError, UnsupportedError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation import prompt
from llm_lite.core.generation.guide import Guide, guide_of
from llm_lite.core.generation.prefill import (
    PLAIN,
    Forgotten,
    Prefilled,
    PrefillOptions,
    Prepared,
)
from llm_lite.core.generation.sampling import Allowed, TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import AnswerItem, answer_steps
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.messages import (
    AllowedTokens,
    Alternative,
    CacheRewritten,
    CacheStatus,
    ChatMessage,
    Event,
    Gains,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    PromptToken,
    StopReason,
    TokenDecoded,
    ToolSpec,
)
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer

Emit = Callable[[Event], None]


class ChatRunner(Protocol):
    """A model on an executor, as an answer needs it."""

    @property
    def model_file(self) -> prompt.ChatFile: ...

    @property
    def session(self) -> Session: ...


@dataclass(slots=True)
class Answer:
    """One `Generate`, a step at a time; survives a change of executor between two steps."""

    command: Generate
    emit: Emit
    should_stop: StopCheck
    requested: float = field(default_factory=time.perf_counter)
    produced: list[int] = field(default_factory=list)
    _forced: tuple[int, ...] = ()  # what it begins with
    _runner: ChatRunner | None = None
    _steps: Iterator[AnswerItem] = field(default_factory=lambda: iter(()))
    _decoder: StreamDecoder | None = None
    _stops: StopStrings[TokenDecoded] = field(default_factory=lambda: StopStrings(()))
    _is_begun: bool = False
    _ended: bool = False  # by a token that ends a turn
    _prompt_tokens: int = 0
    _reused: int = 0
    _prefilled_tokens: int = 0  # tokens prefilled before the first one that was scored
    _decoded_steps: int = 0  # tokens that took a step
    _begun: float = 0.0  # when the steps began on this executor
    _prefill_seconds: float = 0.0
    _first_token: float = 0.0
    _interrupted: float = 0.0  # seconds
    _last_token: float = 0.0
    _labels: tuple[PromptToken, ...] = ()
    _options: PrefillOptions = PLAIN

    @property
    def gains(self) -> Gains | None:
        """Of the heads, where this answer has its own."""
        return self.command.gains

    def begin(self, runner: ChatRunner) -> None:
        """Prepare the prompt, and what was answered so far, on this runner.

        RequestError where the prompt does not fit.
        """
        self._runner, self._steps = runner, iter(())
        with suppress(CancelledError):  # the template was left when the answer was stopped
            self._prepare(runner, self._encode(runner))

    def step(self) -> bool:
        """Run at most one step and tell what it brought; False after the last one."""
        item = next(self._steps, None)
        match item:
            case None:
                return False
            case Prefilled():
                self.emit(PrefillProgress(self.command.request, item.done, item.total))
            case Forgotten():
                self._tell_rewritten()
            case TokenChoice():
                self._take(item)
            case _:
                assert_never(item)
        return not (self._ended or self._stops.found)

    def finish(self) -> None:
        """Tell why the answer ends here, and how fast it was."""
        assert self._runner is not None
        self._show(self._stops.flush())
        session, reason, message = self._runner.session, self._reason(), ""
        if reason == "stop string":  # the last token was not decoded
            session.forget_after(session.context_used - max(0, self._stops.dropped - 1))
        if reason == "context":
            message = (
                f"the context of {session.context} tokens is full; "
                "start a new chat, choose a larger context or let the beginning be forgotten"
            )
        stats = self._stats(self._runner)
        self.emit(GenerationFinished(self.command.request, reason, stats, message))
        self.emit(cache_status(session, self._reused))

    def fail(self, message: str) -> None:
        self._show(self._stops.flush())
        self.emit(GenerationFinished(self.command.request, "error", GenerationStats(), message))

    def _reason(self) -> StopReason:
        if self._ended:
            return "end"
        if self._stops.found:
            return "stop string"
        if self.should_stop():
            return "stopped"
        return "length" if self._left() <= 0 else "context"

    def _encode(self, runner: ChatRunner) -> prompt.Encoded:
        file, command = runner.model_file, self.command
        told = (*command.messages, *([command.begin] if command.begin else ()))
        prompt.check_size(file.tokenizer, told, runner.session.context, command.overflow)
        if command.raw:
            return prompt.encode_raw(file.tokenizer, command.messages)
        return encode(
            file, command.messages, command.continue_last, command.thinking, command.tools
        )

    def _prepare(self, runner: ChatRunner, encoded: prompt.Encoded) -> None:
        tokenizer, session = runner.model_file.tokenizer, runner.session
        if self._decoder is None:
            self._decoder = self._primed_decoder(tokenizer)
            self._stops = self._primed_stops(tokenizer, encoded)
            self._options = _options(self.command, tokenizer, encoded)
            self._forced = self._begun_with(tokenizer, encoded)
        guide = self._guide(tokenizer, encoded)
        if self._is_begun:
            self._options = replace(self._options, resumed=True)
        forced = self._forced[len(self.produced) :]
        prepared = session.prepare([*encoded.ids, *self.produced, *forced[:-1]], self._options)
        if not self._is_begun:
            self._tell_start(runner, encoded, prepared)
            self._is_begun = True
        self._begun = time.perf_counter()
        left = self._left()
        if left > 0:
            sampling = replace(self.command.sampling, max_new_tokens=left)
            ends = tokenizer.end_ids
            self._steps = answer_steps(
                session, prepared, sampling, ends, forced, self.should_stop, guide
            )

    def _tell_start(self, runner: ChatRunner, encoded: prompt.Encoded, prepared: Prepared) -> None:
        ids, request = encoded.ids, self.command.request
        self._prompt_tokens = len(ids)
        self._reused = min(prepared.reused, len(ids) - 1)
        gone = sum(last - first for first, last in prepared.forgotten)
        self._prefilled_tokens = len(prepared.prompt) - gone - prepared.reused
        self._labels = labelled(runner.model_file.tokenizer, encoded)
        thinking = encoded.thinking
        self.emit(GenerationStarted(request, len(ids), self._reused, self._labels, thinking))
        if prepared.forgotten:
            self._tell_forgotten(self._labels, prepared.forgotten)
        self.emit(cache_status(runner.session, self._reused))

    def _tell_rewritten(self) -> None:
        assert self._runner is not None
        tokenizer, messages = self._runner.model_file.tokenizer, self.command.messages
        owner = len(messages) - 1 if self.command.continue_last else len(messages)
        said = (PromptToken(t, text_of(tokenizer, t), owner) for t in self.produced)
        gone = tuple((gap.first, gap.last) for gap in self._runner.session.cache.gaps)
        self._tell_forgotten((*self._labels, *said), gone)

    def _tell_forgotten(
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

    def _primed_stops(
        self, tokenizer: Tokenizer, encoded: prompt.Encoded
    ) -> StopStrings[TokenDecoded]:
        stops = StopStrings[TokenDecoded](self.command.sampling.stop, encoded.thinking)
        stops.hear(tokenizer.decode(self._continued(encoded)))
        return stops

    def _begun_with(self, tokenizer: Tokenizer, encoded: prompt.Encoded) -> tuple[int, ...]:
        command = self.command
        if command.forced or command.begin is None:
            return command.forced
        return tuple(prompt.begun_with(tokenizer, command.begin, encoded.thinking))

    def _guide(self, tokenizer: Tokenizer, encoded: prompt.Encoded) -> Guide | None:
        """It has heard what was said so far, on another executor too."""
        command = self.command
        guide = guide_of(tokenizer, command.sampling, encoded.thinking, may_think=command.thinking)
        if guide is not None:
            guide.take_all((*self._continued(encoded), *self.produced))
        return guide

    def _continued(self, encoded: prompt.Encoded) -> list[int]:
        """The tokens of the message that the answer goes on with."""
        if not self.command.continue_last:
            return []
        last = len(self.command.messages) - 1
        return [t for t, owner in zip(encoded.ids, encoded.owners, strict=True) if owner == last]

    def _show(self, decided: list[tuple[TokenDecoded, str]]) -> None:
        for event, text in decided:
            self.emit(event if text == event.text else replace(event, text=text))

    def _take(self, choice: TokenChoice) -> None:
        assert self._runner is not None and self._decoder is not None
        tokenizer, session = self._runner.model_file.tokenizer, self._runner.session
        if choice.best:  # forced tokens but the last come at once
            self._note_time()
        self.produced.append(choice.token)
        self._ended = bool(choice.best) and choice.token in tokenizer.end_ids
        # Half a character at the end of a stopped answer is not shown, and completed by Continue.
        text = self._decoder.flush() if self._ended else self._decoder.feed(choice.token)
        best = alternatives(tokenizer, choice.best)
        request, token = self.command.request, choice.token
        used, step_ms = session.context_used, 1e3 * session.step_seconds
        allowed = allowed_tokens(tokenizer, choice.allowed)
        first = self._ttft_ms() if self._decoded_steps == 1 else 0.0
        event = TokenDecoded(
            request, token, text, choice.probability, used, best, step_ms, allowed, first
        )
        self._show(self._stops.feed(event, text))

    def _left(self) -> int:
        """New tokens still allowed; forced ones are not new."""
        new = max(0, len(self.produced) - len(self._forced))
        return self.command.sampling.max_new_tokens - new

    def interrupted(self, seconds: float) -> None:
        """So long, what looks inside was served since the last step."""
        if self._first_token:
            self._interrupted += seconds

    def _ttft_ms(self) -> float:
        return 1e3 * (self._first_token - self.requested) if self._first_token else 0.0

    def _note_time(self) -> None:
        self._last_token = time.perf_counter()
        self._decoded_steps += 1
        if self._decoded_steps == 1:
            self._first_token = self._last_token
            self._prefill_seconds = self._first_token - self._begun

    def _stats(self, runner: ChatRunner) -> GenerationStats:
        context_used = runner.session.context_used
        return GenerationStats(
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused,
            new_tokens=len(self.produced),
            prefill_tok_s=_rate(self._prefilled_tokens, self._prefill_seconds),
            decode_tok_s=_rate(self._decoded_steps - 1, self._last_token - self._first_token),
            ttft_ms=self._ttft_ms(),
            context_used=context_used,
            peak_rss_bytes=peak_rss_bytes(),
            read_bytes=token_read_bytes(runner.session.executor.program.plans[0], context_used),
            inspect_ms=1e3 * self._interrupted,
        )


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


def _rate(count: int, seconds: float) -> float:
    """A second; 0 where no time passed."""
    return count / seconds if seconds > 0 else 0.0


def _options(command: Generate, tokenizer: Tokenizer, encoded: prompt.Encoded) -> PrefillOptions:
    head = _first_turn(command.messages, tokenizer, encoded)
    name = name_of(command.messages)
    return PrefillOptions(command.overflow, head, name=name, conversation=command.conversation)


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


def name_of(messages: Sequence[ChatMessage]) -> str:
    """What a conversation is called: how its first question begins."""
    first = next((m.content for m in messages if m.role == "user"), "")
    line = " ".join(first[:400].split())
    return line if len(line) <= 48 else line[:47] + "…"


def encode(
    file: prompt.ChatFile,
    messages: Sequence[ChatMessage],
    continue_last: bool,
    thinking: bool = True,
    tools: Sequence[ToolSpec] = (),
) -> prompt.Encoded:
    """A conversation in the model's own template; FileError where that is at fault."""
    try:
        return prompt.encode_chat(
            file.tokenizer,
            file.template,
            messages,
            continue_last=continue_last,
            thinking=thinking,
            tools=tools,
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


def allowed_tokens(tokenizer: Tokenizer, allowed: Allowed | None) -> AllowedTokens | None:
    if allowed is None:
        return None
    best = alternatives(tokenizer, allowed.best)
    return AllowedTokens(allowed.count, allowed.probability, best)


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
