"""T(n): what one pass over the weights takes by the number of tokens in it, as drafts use them."""

from __future__ import annotations

import time

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.speculation.draft_model import MODEL
from llm_lite.core.loading.runner import Runner
from llm_lite.core.metrics.bench import Spread

SIZES = (1, 2, 4, 8, 16, 32)  # tokens


class PassCost(Struct, frozen=True):
    """The cost of a pass; `break_even`: the share of drafted tokens that must come for drafts of
    this length to pay."""

    tokens: int
    ms: Spread
    ratio: float  # of a pass over one token
    break_even: float


def pass_costs(runner: Runner, *, depth: int, repeat: int) -> tuple[PassCost, ...]:
    """Measure passes behind `depth` tokens of context, `repeat` of each size, in turns.

    RequestError where the executor verifies no drafts, or the context is too small.
    """
    session = runner.session
    most = 1 + session.executor.program.most_drafted
    if most == 1:
        raise RequestError("--curve: no drafts are verified here; expected --speculate lookup")
    if max(1, depth) + most > session.context:
        raise RequestError(
            f"--curve: {depth} tokens and passes of {most} do not fit a context of "
            f"{session.context} tokens"
        )
    taken = _measured(runner, [n for n in SIZES if n <= most], max(1, depth), repeat)
    single = Spread.of(taken[1]).median
    return tuple(_cost(tokens, Spread.of(ms), single) for tokens, ms in taken.items())


def _cost(tokens: int, ms: Spread, single: float) -> PassCost:
    ratio = ms.median / single
    return PassCost(tokens, ms, ratio, break_even(tokens - 1, ratio))


def drafting_ms(runner: Runner) -> float:
    """Return the milliseconds that a token of the draft model costs; 0 if there is none."""
    speculation = runner.session.speculation
    sources = speculation.sources if speculation is not None else ()
    return 1e3 * sum(source.seconds_per_token for source in sources if source.name == MODEL)


def break_even(drafted: int, ratio: float) -> float:
    """Return the chance a of each drafted token to be right from which 1 + a + ... + a^n tokens are
    worth `ratio` passes over one; 1 if none is enough."""
    low, high = 0.0, 1.0
    if sum(high**i for i in range(drafted + 1)) < ratio:
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = sum(middle**i for i in range(drafted + 1)) >= ratio
        low, high = (low, middle) if enough else (middle, high)
    return high


def _measured(runner: Runner, sizes: list[int], depth: int, repeat: int) -> dict[int, list[float]]:
    """Return milliseconds by size, after one pass of each that warms up."""
    session, random = runner.session, np.random.default_rng(3)
    vocabulary = runner.model_info.vocabulary
    session.clear()
    session.prefill(random.integers(0, vocabulary, depth).tolist())
    taken: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    for turn in range(repeat + 1):
        for tokens in sizes:
            first, *draft = random.integers(0, vocabulary, tokens).tolist()
            started = time.perf_counter()
            session.decode(first, draft=draft)
            if turn:
                taken[tokens].append(1e3 * (time.perf_counter() - started))
            session.forget_after(depth)
    return taken
