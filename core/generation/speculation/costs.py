"""The cost of a pass over the weights, by the number of tokens in it: T(n)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Protocol

import numpy as np

from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.plan.step import Step

_SHARE = 0.2  # of a new measurement in the estimate
_DOUBT = 0.05  # of the way back to the guess, each time that a measurement forbids drafts
_GUESS = 0.2  # of a single token's pass: what one more token is guessed to add
SIZES = (1, 2, 4, 8, 16, 32)  # tokens of a pass
RUNS = 3  # of each size, the shortest counts; one more, the very first, brings weights into memory
MOST_SECONDS = 1.0  # a size whose pass would take longer is left to answers


class PassCosts:
    """Seconds of a pass over n tokens, learned from passes as they run.

    T(n) is a straight line between the sizes that were measured (T(n) = W + n C: weights are read
    once, each token is computed). Before anything but single tokens was measured, C is guessed.
    Passes get slower as the context grows: sizes other than 1 are kept as multiples of T(1), which
    lie between 1 and n.
    """

    def __init__(self) -> None:
        self._single = 0.0  # T(1), seconds; 0: not known
        self._ratios: dict[int, float] = {}  # by n > 1: T(n) / T(1)

    def note(self, tokens: int, seconds: float) -> None:
        """Record that a pass over `tokens` tokens took `seconds`."""
        if seconds <= 0:
            return
        if tokens == 1:
            self._single = _moving_average(self._single, seconds)
        elif self._single:
            ratio = min(max(seconds / self._single, 1.0), float(tokens))
            self._ratios[tokens] = _moving_average(self._ratios.get(tokens, 0.0), ratio)

    @property
    def is_known(self) -> bool:
        """Return True once a pass over a single token was measured."""
        return self._single > 0

    def ratio(self, tokens: int) -> float:
        """Return T(tokens) / T(1)."""
        if tokens <= 1:
            return 1.0
        below = max((n for n in self._ratios if n <= tokens), default=1)
        above = min((n for n in self._ratios if n >= tokens), default=0)
        low = self._ratios.get(below, 1.0)
        if above == below:
            return low
        if above:
            share = (tokens - below) / (above - below)
            return low + share * (self._ratios[above] - low)
        slope = (low - 1) / (below - 1) if below > 1 else _GUESS
        return low + (tokens - below) * max(slope, 0.0)

    @staticmethod
    def guess(tokens: int) -> float:
        """Return a guess of T(tokens) / T(1), used until it is measured."""
        return 1 + _GUESS * max(0, tokens - 1)

    def doubt(self) -> None:
        """Move costs that were measured above the guess closer to it: they may have been measured
        while the machine was busy, and are not measured again unless they are tried."""
        for tokens, ratio in self._ratios.items():
            if ratio > self.guess(tokens):
                self._ratios[tokens] = ratio + _DOUBT * (self.guess(tokens) - ratio)

    def seconds(self, tokens: int) -> float:
        """Return T(tokens) in seconds; 0 while T(1) is not known."""
        return self._single * self.ratio(tokens)

    def measured(self) -> Mapping[int, float]:
        """Return seconds by the numbers of tokens that were measured."""
        if not self._single:
            return {}
        sizes = sorted(self._ratios)
        return {1: self._single} | {n: self._single * self._ratios[n] for n in sizes}


def _moving_average(estimate: float, new: float) -> float:
    """Move an estimate towards a new value; a pass that was interrupted counts twice at most."""
    return estimate + _SHARE * (min(new, 2 * estimate) - estimate) if estimate else new


class TimedSession(Protocol):
    """The interface of a session to measurements; see `Session`."""

    executor: Executor
    files: MappedFiles

    @property
    def context(self) -> int: ...

    @property
    def context_used(self) -> int: ...

    def step_by_step(self, tokens: list[int], start: int) -> Step: ...

    def scratch_steps(self, start: int, count: int) -> AbstractContextManager[None]: ...


class PassTiming:
    """Measures sizes that no answer has measured yet, a pass a step, on an engine that is idle."""

    def __init__(self, costs: PassCosts) -> None:
        self._costs = costs
        self._pending = [SIZES[0], *(n for n in SIZES for _ in range(RUNS))]
        self._durations: list[float] = []  # seconds of passes of the size that is being measured

    def step(self, session: TimedSession, should_stop: StopCheck) -> bool:
        """Run one pass, and record T(n) once there were enough; return whether there is more to do.

        A pass that `should_stop` ends does not count and comes again. What fails in a pass fails in
        the next answer too, which says so: nothing is measured any more then.
        """
        self._skip(session)
        if not self._pending:
            return False
        try:
            seconds = _timed(session, self._pending[0], should_stop)
        except CancelledError:
            return True
        except LlmLiteError:
            self._pending = []
            return False
        self._note(seconds)
        return bool(self._pending)

    def _note(self, seconds: float) -> None:
        tokens = self._pending.pop(0)
        self._durations.append(seconds)
        if tokens not in self._pending:
            self._costs.note(tokens, min(self._durations))
            self._durations = []

    def _skip(self, session: TimedSession) -> None:
        """Skip sizes that are known, have no room, are verified by no step here, or take too
        long."""
        room = session.context - session.context_used
        most = min(room, 1 + session.executor.program.most_drafted)
        measured = self._costs.measured()

        def is_worth(tokens: int) -> bool:
            slow = self._costs.seconds(tokens) > MOST_SECONDS
            return tokens <= most and tokens not in measured and not slow

        pending = [tokens for tokens in self._pending if is_worth(tokens)]
        if pending[:1] != self._pending[:1]:
            self._durations = []
        self._pending = pending


def _timed(session: TimedSession, tokens: int, should_stop: StopCheck) -> float:
    """Measure the seconds of a pass over `tokens` tokens behind the cache, which is unchanged
    afterwards."""
    start = session.context_used
    vocabulary = session.executor.program.vocabulary
    spread = (np.arange(tokens) * (vocabulary // (tokens + 1))).tolist()
    step = session.step_by_step(spread, start)
    with session.files.unchanged(), session.scratch_steps(start, tokens):
        began = perf_counter()
        session.executor.run(step, should_stop)
        return perf_counter() - began
