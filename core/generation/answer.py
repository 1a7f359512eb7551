"""An answer from request to last token: the events after each step, and how fast it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, assert_never

from msgspec import Struct, field

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation import prompt
from llm_lite.core.generation.answer_writer import AnswerWriter
from llm_lite.core.generation.prefill import (
    PLAIN,
    Forgotten,
    Prefilled,
    PrefillOptions,
    Prepared,
)
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import AnswerItem, MaskPending, answer_steps
from llm_lite.core.generation.token_texts import text_of
from llm_lite.core.messages import (
    CacheRewritten,
    CacheStatus,
    ChatMessage,
    Event,
    Generate,
    GenerationFinished,
    GenerationStats,
    PrefillProgress,
    PromptToken,
    StopReason,
)
from llm_lite.core.messages.interventions import Interventions
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
    _runner: ChatRunner | None = None
    _writer: AnswerWriter | None = None  # once the prompt is encoded
    _steps: Iterator[AnswerItem] = field(default_factory=lambda: iter(()))
    _forced: int = 0  # tokens that it begins with
    _prefilled_tokens: int = 0  # tokens prefilled before the first one that was scored
    _interrupted: float = 0.0  # seconds
    _options: PrefillOptions = PLAIN

    @property
    def produced(self) -> list[int]:
        """Return the tokens that were chosen."""
        return [] if self._writer is None else self._writer.produced

    @property
    def interventions(self) -> Interventions | None:
        """Return the answer's own interventions; None for those that are set."""
        return self.command.interventions

    def begin(self, runner: ChatRunner) -> None:
        """Prepare the prompt, and what was answered so far, on this runner.

        RequestError where the prompt does not fit.
        """
        self._runner, self._steps = runner, iter(())
        if self._writer is None:
            try:
                self._writer = self._make_writer(runner)
            except CancelledError:  # the template was left when the answer was stopped
                return
        self._prepare(runner.session, self._writer)

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
                return self._take(item)
            case _:
                assert_never(item)
        return True

    def finish(self) -> None:
        """Emit why the answer ends here, and how fast it was."""
        assert self._runner is not None
        session, writer, message = self._runner.session, self._writer, ""
        reason, stats, reused = self._reason(), GenerationStats(), 0
        if writer is not None:
            writer.close()
            writer.flush()
            if writer.dropped:  # the last token was not decoded
                session.forget_after(session.context_used - (writer.dropped - 1))
            stats, reused = self._stats(session, writer), writer.reused
        if reason == "context":
            message = (
                f"the context of {session.context} tokens is full; "
                "start a new chat, choose a larger context or let the beginning be forgotten"
            )
        self.emit(GenerationFinished(reason, stats, message))
        self.emit(cache_status(session, reused))
        self._teach(session)

    def _teach(self, session: Session) -> None:
        """Let drafts learn what the model wrote of itself: not a beginning that was typed, nor what
        it wrote with some heads changed."""
        speculation = session.speculation
        if speculation is None or speculation.learned is None:
            return
        changes = session.changes
        if not changes.shifts and all(gain == 1.0 for row in changes.gains or () for gain in row):
            speculation.learned.learn(self.produced[self._forced :])

    def abandon(self) -> None:
        """Emit the text that was held back: the answer cannot go on."""
        if self._writer is not None:
            self._writer.close()
            self._writer.flush()

    def _reason(self) -> StopReason:
        if self._writer is not None and self._writer.reason is not None:
            return self._writer.reason
        return "stopped" if self.should_stop() else "context"

    def _make_writer(self, runner: ChatRunner) -> AnswerWriter:
        """Return the writer of the answer, behind its prompt. RequestError as of `AnswerWriter` and
        for a prompt that does not fit."""
        tokenizer, command = runner.model_file.tokenizer, self.command
        encoded, last = self._encode(runner), len(command.messages) - 1
        forced = command.forced
        if not forced and command.begin is not None:
            forced = tuple(prompt.begun_with(tokenizer, command.begin, encoded))
        self._forced = len(forced)
        self._options = _options(command, tokenizer, encoded)
        return AnswerWriter(
            tokenizer,
            encoded,
            command.sampling,
            self.emit,
            vocabulary=runner.session.executor.program.vocabulary,
            may_think=command.thinking,
            continued=encoded.tokens_of(last) if command.continue_last else (),
            forced=forced,
            requested=self.requested,
        )

    def _encode(self, runner: ChatRunner) -> prompt.Encoded:
        file, command = runner.model_file, self.command
        conversation = (*command.messages, *([command.begin] if command.begin else ()))
        prompt.check_size(file.tokenizer, conversation, runner.session.context, command.overflow)
        if command.raw:
            return prompt.encode_raw(file.tokenizer, command.messages)
        return prompt.encode(
            file,
            command.messages,
            command.continue_last,
            command.thinking,
            command.tools,
            command.values,
        )

    def _prepare(self, session: Session, writer: AnswerWriter) -> None:
        if writer.is_begun:
            self._options = replace(self._options, resumed=True)
        prepared = session.prepare(writer.chooser.tokens, self._options)
        if not writer.is_begun:
            self._emit_start(session, writer, prepared)
        writer.begin_steps()
        writer.chooser.drafts.speculation = session.speculation
        if writer.reason is None:
            self._steps = answer_steps(session, prepared, writer.chooser, self.should_stop)

    def _emit_start(self, session: Session, writer: AnswerWriter, prepared: Prepared) -> None:
        gone = sum(last - first for first, last in prepared.forgotten)
        self._prefilled_tokens = len(prepared.prompt) - gone - prepared.reused
        writer.begin(prepared.reused)
        if prepared.forgotten:
            self._emit_forgotten(writer.labels, prepared.forgotten)
        self.emit(cache_status(session, writer.reused))

    def _emit_rewritten(self) -> None:
        assert self._runner is not None and self._writer is not None
        tokenizer, messages = self._runner.model_file.tokenizer, self.command.messages
        owner = len(messages) - 1 if self.command.continue_last else len(messages)
        answer_tokens = (PromptToken(t, text_of(tokenizer, t), owner) for t in self.produced)
        forgotten = tuple((gap.first, gap.last) for gap in self._runner.session.cache.gaps)
        self._emit_forgotten((*self._writer.labels, *answer_tokens), forgotten)

    def _emit_forgotten(
        self, labels: tuple[PromptToken, ...], forgotten: tuple[tuple[int, int], ...]
    ) -> None:
        """Emit which of all tokens the model sees from now on, and which it does not."""
        seen = list(labels)
        for first, last in reversed(forgotten):
            del seen[first:last]
        self.emit(CacheRewritten(tuple(seen), forgotten))

    def _take(self, choice: TokenChoice) -> bool:
        """Emit a token; return whether the answer may go on behind it."""
        assert self._runner is not None and self._writer is not None
        session = self._runner.session
        self._writer.emit_token(choice, session.context_used, session.step_seconds)
        return self._writer.reason is None

    def interrupted(self, seconds: float) -> None:
        """Record how long requests of inspecting panels took since the last step."""
        if self._writer is not None and self._writer.has_begun:
            self._interrupted += seconds

    def _stats(self, session: Session, writer: AnswerWriter) -> GenerationStats:
        used = session.context_used
        read = token_read_bytes(session.executor.program.plans[0], used)
        return replace(
            writer.stats(self._prefilled_tokens, used, read),
            inspect_ms=1e3 * self._interrupted,
            pass_ms=_pass_ms(session),
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
    """Return how many leading tokens are the system prompt, the first question and its answer."""
    questions = [index for index, m in enumerate(messages) if m.role in ("user", "text")]
    if len(questions) < 2:
        return len(encoded.ids)
    inside = (i for i, owner in enumerate(encoded.owners) if 0 <= owner < questions[1])
    end = max(inside, default=-1) + 1
    return end + (end < len(encoded.ids) and encoded.ids[end] in tokenizer.end_ids)


def name_of(messages: Sequence[ChatMessage]) -> str:
    """Return a conversation's name: the beginning of its first question."""
    first = next((m.content for m in messages if m.role in ("user", "text")), "")
    line = " ".join(first[:400].split())
    return line if len(line) <= 48 else line[:47] + "…"
