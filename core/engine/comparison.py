"""Two ways to run a model answer one prompt side by side, a token of each in turn.

Then run B scores every token of A's answer (teacher forcing), so that their distributions
can be compared token by token although the answers have parted long before.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec import Struct, field

from llm_lite.core.engine.cache_restoring import cache_restored
from llm_lite.core.engine.task_context import TaskContext
from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.answer import Emit
from llm_lite.core.generation.answer_writer import peak_rss_bytes
from llm_lite.core.generation.prompt import check_size, encode
from llm_lite.core.generation.sampling import TokenChoice, score_token
from llm_lite.core.generation.steps import generate
from llm_lite.core.generation.token_texts import alternatives
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    CommandProgress,
    CompareRuns,
    EngineOptions,
    Forced,
    GenerationStats,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
    SamplingOptions,
    StopReason,
)
from llm_lite.core.metrics.divergence import compare
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import StreamDecoder

RUNS = (0, 1)
LONGEST_STEP = 32  # tokens of the forced answer in one event


class Run(Struct):
    """An answer of one runner; its time is measured inside its own steps only."""

    command: CompareRuns
    number: int
    runner: Runner
    shared: bool
    emit: Emit
    should_stop: StopCheck
    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    _choices: Iterator[TokenChoice] = field(default_factory=lambda: iter(()))
    _decoder: StreamDecoder | None = None
    _first: float = 0.0  # seconds that the first token took
    _others: float = 0.0

    def begin(self, prompt: Sequence[int], sampling: SamplingOptions) -> None:
        tokenizer = self.runner.model_file.tokenizer
        self._decoder = StreamDecoder(tokenizer)
        self.prompt_tokens = len(prompt)
        session = self.runner.session
        session.clear()  # else the time to the first token would depend on what was there
        self._choices = generate(session, prompt, sampling, tokenizer.end_ids, self.should_stop)
        self._emit_ready()

    def step(self) -> bool:
        """Generate one more token and return True if there may be another."""
        before = time.perf_counter()
        choice = next(self._choices, None)
        seconds = time.perf_counter() - before
        if choice is None:
            self._finish(self._reason())
            return False
        if self.tokens:
            self._others += seconds
        else:
            self._first = seconds
        return self._emit_token(choice)

    def _reason(self) -> StopReason:
        if self.should_stop():
            return "stopped"
        full = self.runner.session.context_used >= self.runner.session.context
        return "context" if full else "length"

    def _emit_token(self, choice: TokenChoice) -> bool:
        assert self._decoder is not None
        tokenizer = self.runner.model_file.tokenizer
        self.tokens.append(choice.token)
        ended = choice.token in tokenizer.end_ids
        text = self._decoder.flush() if ended else self._decoder.feed(choice.token)
        best = alternatives(tokenizer, choice.best)
        self.emit(RunToken(self.number, choice.token, text, choice.probability, best))
        if ended:
            self._finish("end")
        return not ended

    def _emit_ready(self) -> None:
        self.emit(
            RunReady(
                self.number,
                self.runner.executor_info,
                self.runner.model_info.weight_bytes,
                self.runner.model_info.cache.token_bytes,
                self.shared,
            )
        )

    def _finish(self, reason: StopReason) -> None:
        count = len(self.tokens)
        stats = GenerationStats(
            prompt_tokens=self.prompt_tokens,
            new_tokens=count,
            prefill_tok_s=self.prompt_tokens / self._first if self._first else 0.0,
            decode_tok_s=(count - 1) / self._others if self._others else 0.0,
            ttft_ms=1e3 * self._first,
            context_used=self.runner.session.context_used,
            peak_rss_bytes=peak_rss_bytes(),
        )
        self.emit(RunFinished(self.number, reason, stats))


def compare_runs(command: CompareRuns, context: TaskContext) -> None:
    """Answer on both runs, then force; CancelledError where it ends before there is an answer.

    The chat's runner, where it serves as a run, is returned with what its cache held.
    """
    check_size(context.file.tokenizer, command.messages, context.file.model.shape.trained_context)
    prompt = encode(context.file, command.messages, False).ids
    with ExitStack() as stack:
        stack.enter_context(cache_restored(context))
        a, b = (_open(command, number, prompt, context, stack) for number in RUNS)
        sampling = _sampling(command)
        for run in (a, b):
            changes = context.runner.session.changes
            run.runner.set_gains(context.runner.session.gains, changes.shifts, throughout=True)
            run.begin(prompt, sampling)
        answering = [a, b]
        while answering:
            answering = [run for run in answering if run.step()]
            context.between()
        if a.tokens:
            force(a, b, prompt, context)


def _sampling(command: CompareRuns) -> SamplingOptions:
    """Return sampling options with one seed for both runs, and without grammar or stop strings, as
    it is the modes that are compared."""
    seed = command.sampling.seed
    return replace(
        command.sampling,
        seed=secrets.randbelow(1 << 32) if seed is None else seed,
        json_schema="",
        grammar="",
        stop=(),
    )


def _open(
    command: CompareRuns,
    number: int,
    prompt: Sequence[int],
    context: TaskContext,
    stack: ExitStack,
) -> Run:
    options, chat = command.runs[number], context.runner
    needed = len(prompt) + command.sampling.max_new_tokens
    other = command.runs[0] if number else None
    taken = other is not None and same(other, context.options)
    if same(options, context.options) and not taken and chat.session.context >= needed:
        return Run(command, number, chat, True, context.emit, context.should_stop)
    options = replace(
        options,
        context=min(needed, context.file.model.shape.trained_context),
        query_budget=0,
    )
    runner = stack.enter_context(
        loader.started(context.file, options, context.device, _progress(command, number, context))
    )
    return Run(command, number, runner, False, context.emit, context.should_stop)


def same(run: EngineOptions, chat: EngineOptions) -> bool:
    """Return True if the chat's runner computes what the run needs."""
    return replace(run, context=0, query_budget=0) == replace(chat, context=0, query_budget=0)


def _progress(command: CompareRuns, number: int, context: TaskContext) -> loader.Progress:
    def report(stage: str, fraction: float) -> None:
        if context.should_stop():
            raise CancelledError("stopped")
        name = f"{stage}, run {'AB'[number]}"
        context.emit(CommandProgress(name, (number + fraction) / len(RUNS)))

    return report


def force(a: Run, b: Run, prompt: Sequence[int], context: TaskContext) -> None:
    """Compute KL(A || B) at every token of A's answer, when both have read A's answer up to it."""
    tokens = a.tokens
    read, first = [*prompt, *tokens[:-1]], len(prompt) - 1
    step = min(LONGEST_STEP, a.runner.session.max_outputs, b.runner.session.max_outputs)
    at = 0
    for rows_a, rows_b in zip(
        a.runner.session.score(read, first, step, context.closing),
        b.runner.session.score(read, first, step, context.closing),
        strict=True,
    ):
        targets = tokens[at : at + len(rows_a)]
        kld = compare(rows_a, rows_b, np.asarray(targets, np.int64)).kld
        forced = []
        for row_a, row_b, token, kl in zip(rows_a, rows_b, targets, kld, strict=True):
            forced.append(
                _forced(a, score_token(row_a, token), score_token(row_b, token), float(kl))
            )
        context.emit(RunsForced(at, tuple(forced)))
        at += len(rows_a)
        context.between()
        context.emit(CommandProgress("asking B for what A said", at / len(tokens)))


def _forced(run: Run, by_a: TokenChoice, by_b: TokenChoice, kl: float) -> Forced:
    tokenizer = run.runner.model_file.tokenizer
    return Forced(
        kl,
        (by_a.probability, by_b.probability),
        (alternatives(tokenizer, by_a.best), alternatives(tokenizer, by_b.best)),
    )
