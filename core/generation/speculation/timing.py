"""T(n), measured before the first answer: passes behind the conversation that leave no trace."""

from __future__ import annotations

from contextlib import AbstractContextManager
from time import perf_counter
from typing import Protocol

import numpy as np

from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.generation.speculation.costs import PassCosts
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace

SIZES = (1, 2, 4, 8, 16, 32)  # tokens of a pass
RUNS = 3  # of each size, the shortest counts; one more, the very first, brings weights into memory
MOST_SECONDS = 1.0  # a size whose pass would take longer is left to answers


class TimedSession(Protocol):
    """The interface of a session to measurements; see `CacheSteps`."""

    executor: Executor
    files: MappedFiles

    @property
    def context(self) -> int: ...

    @property
    def context_used(self) -> int: ...

    def step(self, tokens: list[int], start: int, outputs: int = 1) -> Step: ...

    def beside(self, start: int, count: int) -> AbstractContextManager[None]: ...


class PassTiming:
    """Measures sizes that no answer has measured yet, a pass a step, on an engine that is idle."""

    def __init__(self, costs: PassCosts) -> None:
        self._costs = costs
        self._left = [SIZES[0], *(n for n in SIZES for _ in range(RUNS))]
        self._taken: list[float] = []  # seconds of passes of the size that is being measured

    def step(self, session: TimedSession, should_stop: StopCheck) -> bool:
        """Run one pass, and record T(n) once there were enough; return whether there is more to do.

        A pass that `should_stop` ends does not count and comes again. What fails in a pass fails in
        the next answer too, which says so: nothing is measured any more then.
        """
        self._skip(session)
        if not self._left:
            return False
        try:
            seconds = _timed(session, self._left[0], should_stop)
        except CancelledError:
            return True
        except LlmLiteError:
            self._left = []
            return False
        self._note(seconds)
        return bool(self._left)

    def _note(self, seconds: float) -> None:
        tokens = self._left.pop(0)
        self._taken.append(seconds)
        if tokens not in self._left:
            self._costs.note(tokens, min(self._taken))
            self._taken = []

    def _skip(self, session: TimedSession) -> None:
        """Skip sizes that are known, have no room, are verified by no step here, or take too
        long."""
        room = session.context - session.context_used
        most = min(room, max(1, session.executor.program.stepwise_tokens))
        known = self._costs.measured()

        def is_worth(tokens: int) -> bool:
            slow = self._costs.seconds(tokens) > MOST_SECONDS
            return tokens <= most and tokens not in known and not slow

        left = [tokens for tokens in self._left if is_worth(tokens)]
        if left[:1] != self._left[:1]:
            self._taken = []
        self._left = left


def _timed(session: TimedSession, tokens: int, should_stop: StopCheck) -> float:
    """Measure the seconds of a pass over `tokens` tokens behind the cache, which is unchanged
    afterwards."""
    start = session.context_used
    vocabulary = session.executor.program.vocabulary
    spread = (np.arange(tokens) * (vocabulary // (tokens + 1))).tolist()
    step = replace(session.step(spread, start, tokens), stepwise=tokens > 1)
    with session.files.unchanged(), session.beside(start, tokens):
        began = perf_counter()
        session.executor.run(step, should_stop)
        return perf_counter() - began
