"""An answer from request to last token: the events after each step, and how fast it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, assert_never

from msgspec import Struct, field

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation import prompt
from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.guide import Guide, guide_of
from llm_lite.core.generation.prefill import (
    PLAIN,
    Forgotten,
    Prefilled,
    PrefillOptions,
    Prepared,
)
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.steps import AnswerItem, MaskPending, answer_steps
from llm_lite.core.generation.token_texts import TokenEmitter, labelled, text_of
from llm_lite.core.messages import (
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
)
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer

Emit = Callable[[Event], None]


class ChatRunner(Protocol):
    """The interface of a model on an executor to an answer."""

    @property
    def model_file(self) -> prompt.ChatFile: ...

    @property
    def session(self) -> Session: ...


class Answer(Struct):
    """One `Generate`, a step at a time; survives a change of executor between two steps."""

    command: Generate
    emit: Emit
    should_stop: StopCheck
    requested: float = field(default_factory=time.perf_counter)
    _forced: tuple[int, ...] = ()  # what it begins with
    _runner: ChatRunner | None = None
    _steps: Iterator[AnswerItem] = field(default_factory=lambda: iter(()))
    _emitter: TokenEmitter | None = None  # once the prompt is encoded
    _is_begun: bool = False
    _prompt_tokens: int = 0
    _reused: int = 0
    _prefilled_tokens: int = 0  # tokens prefilled before the first one that was scored
    _interrupted: float = 0.0  # seconds
    _labels: tuple[PromptToken, ...] = ()
    _options: PrefillOptions = PLAIN
    _drafts: AnswerDrafts = field(default_factory=AnswerDrafts)

    @property
    def produced(self) -> list[int]:
        """Return the tokens that were chosen."""
        return [] if self._emitter is None else self._emitter.produced

    @property
    def gains(self) -> Gains | None:
        """Return the answer's own gains of the heads; None if it has none."""
        return self.command.gains

    def begin(self, runner: ChatRunner) -> None:
        """Prepare the prompt, and what was answered so far, on this runner.

        RequestError where the prompt does not fit.
        """
        self._runner, self._steps = runner, iter(())
        with suppress(CancelledError):  # the template was left when the answer was stopped
            self._prepare(runner, self._encode(runner))

    def step(self) -> bool:
        """Run at most one step and emit its events; False after the last one."""
        item = next(self._steps, None)
        match item:
            case None:
                return False
            case Prefilled():
                self.emit(PrefillProgress(item.done, item.total))
            case Forgotten():
                self._emit_rewritten()
            case MaskPending():
                pass
            case TokenChoice():
                self._take(item)
            case _:
                assert_never(item)
        return self._emitter is None or not self._emitter.is_over

    def finish(self) -> None:
        """Emit why the answer ends here, and how fast it was."""
        assert self._runner is not None
        if self._emitter is not None:
            self._emitter.flush()
        session, reason, message = self._runner.session, self._reason(), ""
        if self._emitter is not None and self._emitter.dropped:  # the last token was not decoded
            session.forget_after(session.context_used - (self._emitter.dropped - 1))
        if reason == "context":
            message = (
                f"the context of {session.context} tokens is full; "
                "start a new chat, choose a larger context or let the beginning be forgotten"
            )
        stats = self._stats(self._runner)
        self.emit(GenerationFinished(reason, stats, message))
        self.emit(cache_status(session, self._reused))
        self._teach(session)

    def _teach(self, session: Session) -> None:
        """Let drafts learn what the model wrote of itself: not a beginning that was typed, nor what
        it wrote with some heads changed."""
        speculation = session.speculation
        if speculation is None or speculation.learned is None:
            return
        if all(gain == 1.0 for row in self.gains or session.gains for gain in row):
            speculation.learned.learn(self.produced[len(self._forced) :])

    def abandon(self) -> None:
        """Emit the text that was held back: the answer cannot go on."""
        if self._emitter is not None:
            self._emitter.flush()

    def _reason(self) -> StopReason:
        if self._emitter is not None and self._emitter.reason is not None:
            return self._emitter.reason
        if self.should_stop():
            return "stopped"
        return "length" if self._left() <= 0 else "context"

    def _encode(self, runner: ChatRunner) -> prompt.Encoded:
        file, command = runner.model_file, self.command
        conversation = (*command.messages, *([command.begin] if command.begin else ()))
        prompt.check_size(file.tokenizer, conversation, runner.session.context, command.overflow)
        if command.raw:
            return prompt.encode_raw(file.tokenizer, command.messages)
        return prompt.encode(
            file, command.messages, command.continue_last, command.thinking, command.tools
        )

    def _prepare(self, runner: ChatRunner, encoded: prompt.Encoded) -> None:
        tokenizer, session = runner.model_file.tokenizer, runner.session
        if self._emitter is None:
            self._emitter = self._primed_emitter(tokenizer, encoded)
            self._options = _options(self.command, tokenizer, encoded)
            self._forced = self._begun_with(tokenizer, encoded)
        guide = self._guide(tokenizer, encoded)
        if self._is_begun:
            self._options = replace(self._options, resumed=True)
        forced = self._forced[len(self.produced) :]
        prepared = session.prepare([*encoded.ids, *self.produced, *forced[:-1]], self._options)
        if not self._is_begun:
            self._emit_start(runner, encoded, prepared)
            self._is_begun = True
        self._emitter.begin_steps()
        left = self._left()
        if left > 0:
            sampling = replace(self.command.sampling, max_new_tokens=left)
            ends = tokenizer.end_ids
            self._drafts.ends, self._drafts.speculation = ends, session.speculation
            self._steps = answer_steps(
                session, prepared, sampling, ends, forced, self.should_stop, guide, self._drafts
            )

    def _emit_start(self, runner: ChatRunner, encoded: prompt.Encoded, prepared: Prepared) -> None:
        ids = encoded.ids
        self._prompt_tokens = len(ids)
        self._reused = min(prepared.reused, len(ids) - 1)
        gone = sum(last - first for first, last in prepared.forgotten)
        self._prefilled_tokens = len(prepared.prompt) - gone - prepared.reused
        self._labels = labelled(runner.model_file.tokenizer, encoded)
        thinking = encoded.thinking
        self.emit(GenerationStarted(len(ids), self._reused, self._labels, thinking))
        if prepared.forgotten:
            self._emit_forgotten(self._labels, prepared.forgotten)
        self.emit(cache_status(runner.session, self._reused))

    def _emit_rewritten(self) -> None:
        assert self._runner is not None
        tokenizer, messages = self._runner.model_file.tokenizer, self.command.messages
        owner = len(messages) - 1 if self.command.continue_last else len(messages)
        answer_tokens = (PromptToken(t, text_of(tokenizer, t), owner) for t in self.produced)
        gone = tuple((gap.first, gap.last) for gap in self._runner.session.cache.gaps)
        self._emit_forgotten((*self._labels, *answer_tokens), gone)

    def _emit_forgotten(
        self, labels: tuple[PromptToken, ...], gone: tuple[tuple[int, int], ...]
    ) -> None:
        """Emit which of all tokens the model sees from now on, and which it does not."""
        seen = list(labels)
        for first, last in reversed(gone):
            del seen[first:last]
        self.emit(CacheRewritten(tuple(seen), gone))

    def _primed_emitter(self, tokenizer: Tokenizer, encoded: prompt.Encoded) -> TokenEmitter:
        command, continued = self.command, self._continued(encoded)
        endings = Endings[TokenDecoded](command.sampling, encoded)
        emitter = TokenEmitter(tokenizer, self.emit, endings, continued)
        emitter.requested = self.requested
        return emitter

    def _begun_with(self, tokenizer: Tokenizer, encoded: prompt.Encoded) -> tuple[int, ...]:
        command = self.command
        if command.forced or command.begin is None:
            return command.forced
        return tuple(prompt.begun_with(tokenizer, command.begin, encoded.thinking))

    def _guide(self, tokenizer: Tokenizer, encoded: prompt.Encoded) -> Guide | None:
        """Make the guide, which has read what was written so far, perhaps on another executor."""
        return guide_of(
            tokenizer,
            self.command.sampling,
            encoded.thinking,
            may_think=self.command.thinking,
            written=(*self._continued(encoded), *self.produced),
        )

    def _continued(self, encoded: prompt.Encoded) -> list[int]:
        """Return the tokens of the message that the answer continues."""
        continues = self.command.continue_last
        return encoded.tokens_of(len(self.command.messages) - 1) if continues else []

    def _take(self, choice: TokenChoice) -> None:
        assert self._runner is not None and self._emitter is not None
        session = self._runner.session
        self._emitter.emit(choice, session.context_used, session.step_seconds)

    def _left(self) -> int:
        """Return how many new tokens are still allowed; forced ones are not new."""
        new = max(0, len(self.produced) - len(self._forced))
        return self.command.sampling.max_new_tokens - new

    def interrupted(self, seconds: float) -> None:
        """Record how long requests of inspecting panels took since the last step."""
        if self._emitter is not None and self._emitter.has_begun:
            self._interrupted += seconds

    def _stats(self, runner: ChatRunner) -> GenerationStats:
        context_used = runner.session.context_used
        timed = self._emitter.stats(self._prefilled_tokens) if self._emitter else GenerationStats()
        return replace(
            self._drafts.with_draft_counts(timed),
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused,
            context_used=context_used,
            peak_rss_bytes=peak_rss_bytes(),
            read_bytes=token_read_bytes(runner.session.executor.program.plans[0], context_used),
            inspect_ms=1e3 * self._interrupted,
            pass_ms=_pass_ms(runner.session),
        )


def _pass_ms(session: Session) -> tuple[tuple[int, float], ...]:
    """Return the milliseconds of passes over n tokens, as far as they were measured."""
    if session.speculation is None:
        return ()
    measured = session.speculation.policy.costs.measured()
    return tuple((tokens, 1e3 * seconds) for tokens, seconds in measured.items())


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


def _options(command: Generate, tokenizer: Tokenizer, encoded: prompt.Encoded) -> PrefillOptions:
    head = _first_turn(command.messages, tokenizer, encoded)
    name = name_of(command.messages)
    return PrefillOptions(command.overflow, head, name=name, conversation=command.conversation)


def _first_turn(
    messages: Sequence[ChatMessage], tokenizer: Tokenizer, encoded: prompt.Encoded
) -> int:
    """Return how many first tokens are the system prompt, the first question and its answer."""
    asked = [index for index, m in enumerate(messages) if m.role in ("user", "text")]
    if len(asked) < 2:
        return len(encoded.ids)
    inside = (i for i, owner in enumerate(encoded.owners) if 0 <= owner < asked[1])
    end = max(inside, default=-1) + 1
    return end + (end < len(encoded.ids) and encoded.ids[end] in tokenizer.end_ids)


def name_of(messages: Sequence[ChatMessage]) -> str:
    """Return a conversation's name: the beginning of its first question."""
    first = next((m.content for m in messages if m.role in ("user", "text")), "")
    line = " ".join(first[:400].split())
    return line if len(line) <= 48 else line[:47] + "…"


def peak_rss_bytes() -> int:
    """Return the most memory this process ever had resident; 0 if the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux
