"""The tokens of a response run once more, where recurrent states within it are wanted: from the
last state that lies behind one of its pages, or from its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from llm_lite.core.errors import GoneError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.lens import F32, TokenAgain, lens_of
from llm_lite.core.inspect.tokens_again import STORES, parts_again
from llm_lite.core.kv_cache.states import State, StateSlots
from llm_lite.core.plan.step import NO_STATE, PAGE, Segment, Step, pages_for
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.inspect import CachedResponse

# Tokens that run again for one request, between the steps of others: at 70 a second, which is slow,
# a client has its answer within a minute.
MOST_AGAIN = 4096


class ResponseTokens:
    """The first tokens of a response, `TokensAgain` (core/inspect/tokens_again.py). It belongs to
    the engine's thread, between two steps; behind each step `renew` says what the cache has now."""

    def __init__(self, batch: Batch, held: CachedResponse) -> None:
        self._batch, self._held, self.length = batch, held, len(held.tokens)
        self._slots = StateSlots(batch.executor)

    @property
    def executor(self) -> Executor:
        return self._batch.executor

    @property
    def files(self) -> MappedFiles:
        return self._batch.runner.session.files

    def renew(self, batch: Batch, held: CachedResponse) -> None:
        """Go on with the pages that the response has now; GoneError where these hold less of it, or
        are another executor's."""
        if batch is not self._batch or held.tokens[: self.length] != self._held.tokens:
            raise GoneError(f"the cache has begun to give up {self._held.name}: ask again")
        self._held = CachedResponse(
            held.name,
            self._held.tokens,
            held.prompt_tokens,
            held.pages,
            held.gains,
            held.windows_from,
        )

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        at, slot = self._last_state(length)
        if end - at > MOST_AGAIN:
            raise RequestError(
                f"{end - at:,} tokens would run again for the recurrent states before token "
                f"{length}, of which the server holds those behind {at:,}: at most {MOST_AGAIN:,} "
                "run again for one request"
            )
        return at, None if slot is None else self._slots.read(slot)

    def _last_state(self, length: int) -> tuple[int, int | None]:
        """Return the most of the first `length` tokens behind which a step could go on, and the
        slot of the recurrent state there."""
        states = self._batch.pool.states
        if states is None:
            return length, None
        for index in range(length // PAGE - 1, -1, -1):
            slot = states.of(int(self._held.pages[index]))
            if slot is not None:
                return (index + 1) * PAGE, slot
        return 0, None

    def run(self, start: int, end: int, state: State | None, run: Callable[[Step], None]) -> State:
        batch, held, states = self._batch, self._held, self._batch.pool.states
        held.check_seen(start, batch.layers)
        slot = states.allocate() if states is not None else 0
        if slot is None:
            raise RequestError(
                "answers use all slots of recurrent states: ask again once one has ended"
            )
        try:
            if state:
                self._slots.write(slot, state)
            ids = np.array(held.tokens[start:end], np.int32)
            pages, gains = held.pages[: pages_for(end)], batch.slots.slot_of(held.gains)
            slots = slot if state else NO_STATE, slot
            run(batch.step(ids, (Segment(start, end - start, 1, pages, gains, slots),)))
            return self._slots.read(slot)
        finally:
            if states is not None:
                states.release(slot)

    def checked(self, values: Values, what: str) -> Values:
        return self._batch.runner.session.checked(values, what)


def lens_parts(
    tokens: ResponseTokens, position: int, found: list[tuple[int, F32]]
) -> Iterator[None]:
    """Run a token once more, and those before that it takes; yield after each part, and leave
    in `found` what `lens_of` returns."""

    def run(start: int, state: State | None, step: Step) -> None:
        if start == position:
            found.extend(lens_of(TokenAgain(tokens.executor, tokens.files, step, tokens.checked)))
            return
        plan = tokens.executor.program.plan_of(step)
        with tokens.files.unchanged():
            tokens.executor.run_ops(plan, step, 0, plan.layer_ends[-1] + 1, STORES)

    return parts_again(tokens, position, position + 1, run)
