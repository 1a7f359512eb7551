"""The benchmark of a loaded model: how fast it reads a prompt and writes an answer, beside what
memory allows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.loading.runner import Runner
from llm_lite.core.plan.traffic import token_read_bytes

TURN_TOKENS = 24  # of a second turn: a short question in its template


class Spread(Struct, frozen=True):
    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


class BenchResult(Struct, frozen=True):
    """Rates in tokens per second; `bandwidth_share` is decode's reads over the measured read."""

    prefill_tok_s: Spread
    decode_tok_s: Spread
    read_bytes_per_token: int
    read_gb_s_measured: float
    bandwidth_share: float
    reuse: Reuse | None  # None where it was not asked for


class Reuse(Struct, frozen=True):
    """Time to the first token of a second turn, in milliseconds: where the cache holds the first,
    and where all is read again."""

    conversation_tokens: int
    turn_tokens: int
    reused_ms: float
    fresh_ms: float

    @property
    def ratio(self) -> float:
        return self.fresh_ms / self.reused_ms


def bench(
    runner: Runner,
    *,
    prompt_tokens: int,
    new_tokens: int,
    depth: int,
    repeat: int,
    conversation: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> BenchResult:
    """Run `repeat` times a prefill and a decode at `depth` tokens of context, after one warm-up;
    then a second turn in a conversation of `conversation` tokens, 0: none.

    RequestError where the context is too small for them.
    """
    _check(runner, prompt_tokens, new_tokens, depth, repeat)
    _check_conversation(runner, conversation)
    bandwidth = [read_gb_s(runner)]
    prefill, decode = [], []
    run_once(runner, min(prompt_tokens, 32), min(new_tokens, 4), depth=0)
    for index in range(repeat):
        p, d = run_once(runner, prompt_tokens, new_tokens, depth=depth)
        prefill.append(p)
        decode.append(d)
        bandwidth.append(read_gb_s(runner))
        progress(index + 1)
    read = read_bytes_per_token(runner, depth + new_tokens // 2)
    rate = Spread.of(decode)
    measured = statistics.median(bandwidth)
    share = rate.median * read / 1e9 / measured if measured else 0.0
    reuse = _reuse(runner, conversation, repeat) if conversation else None
    return BenchResult(Spread.of(prefill), rate, read, measured, share, reuse)


def run_once(
    runner: Runner, prompt_tokens: int, new_tokens: int, *, depth: int
) -> tuple[float, float]:
    """Return tokens per second of random tokens: prefill from an empty cache, decode from `depth`
    on. For an encoder-decoder the prefill is that of its encoder, and its decoder writes about that
    source."""
    session = runner.session
    vocabulary = runner.model_info.vocabulary
    random = np.random.default_rng(1)
    session.clear()
    prompt = random.integers(0, vocabulary, prompt_tokens).tolist()
    started = time.perf_counter()
    if runner.model_info.translates:
        runner.read_source(prompt)
    else:
        session.prefill(prompt)
    prefill_seconds = time.perf_counter() - started
    session.clear()
    if depth:
        session.prefill(random.integers(0, vocabulary, depth).tolist())
    started = time.perf_counter()
    for token in random.integers(0, vocabulary, new_tokens).tolist():
        session.decode(token)
    return prompt_tokens / prefill_seconds, new_tokens / (time.perf_counter() - started)


def _reuse(runner: Runner, conversation: int, repeat: int) -> Reuse:
    """Return medians; every turn has other tokens than the one before."""
    session, random = runner.session, np.random.default_rng(2)
    vocabulary = runner.model_info.vocabulary
    tokens = random.integers(0, vocabulary, conversation).tolist()
    fresh, reused = [], []
    for _ in range(repeat):
        turns = random.integers(0, vocabulary, (2, TURN_TOKENS)).tolist()
        session.clear()
        fresh.append(_prefill_ms(runner, [*tokens, *turns[0]]))
        reused.append(_prefill_ms(runner, [*tokens, *turns[1]]))
    middle = statistics.median
    return Reuse(conversation, TURN_TOKENS, middle(reused), middle(fresh))


def _prefill_ms(runner: Runner, tokens: list[int]) -> float:
    started = time.perf_counter()
    int(runner.session.prefill(tokens).argmax())
    return 1e3 * (time.perf_counter() - started)


def read_bytes_per_token(runner: Runner, cached_tokens: int) -> int:
    """Return the bytes that a token decoded behind so many positions must read."""
    return token_read_bytes(runner.executor.program.plans[0], cached_tokens)


def read_gb_s(runner: Runner) -> float:
    """Return the GB/s of a plain read of memory on the device that runs the model."""
    if runner.choice.backend == "vulkan":
        from llm_lite.core.gpu.bandwidth import read_gb_s as device_read_gb_s

        assert runner.choice.device is not None
        return device_read_gb_s(runner.choice.device)
    from llm_lite.core.processor import read_gb_s as cpu_read_gb_s

    return cpu_read_gb_s(runner.executor_info.threads)


def _check_conversation(runner: Runner, conversation: int) -> None:
    if conversation < 0:
        raise RequestError(f"--conversation: expected at least 0, found {conversation}")
    if conversation and conversation + TURN_TOKENS > runner.session.context:
        raise RequestError(
            f"--conversation: expected at most {runner.session.context - TURN_TOKENS} tokens, "
            f"found {conversation}"
        )


def _check(runner: Runner, prompt_tokens: int, new_tokens: int, depth: int, repeat: int) -> None:
    context = runner.session.context
    for name, value, low in (
        ("--prompt-tokens", prompt_tokens, 1),
        ("--new-tokens", new_tokens, 1),
        ("--depth", depth, 0),
        ("--repeat", repeat, 1),
    ):
        if value < low:
            raise RequestError(f"{name}: expected at least {low}, found {value}")
    if max(prompt_tokens, depth + new_tokens) > context:
        raise RequestError(
            f"the context holds {context} tokens, too few for {prompt_tokens} prompt tokens or "
            f"{new_tokens} new ones at depth {depth}"
        )
