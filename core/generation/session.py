"""One conversation on one executor: what of a prompt needs work, prefill in chunks, decode.

A new prompt keeps the longest prefix that it shares with what the cache or the pool of recent
prefixes holds, so a turn, an edit or another branch prefills only what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.exec.moving import copy_rows
from llm_lite.core.files.mapping import NO_FILES, MappedFiles
from llm_lite.core.generation.cache_steps import CacheSteps
from llm_lite.core.generation.prefill import (
    PLAIN,
    Prefilled,
    PrefillOptions,
    Prepared,
    check_prompt,
    chunks,
)
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.kv_cache.contents import Prefix, good, longest_usable
from llm_lite.core.kv_cache.prefix_pool import LEAST, PrefixPool
from llm_lite.core.kv_cache.provenance import (
    PrefillPlan,
    forgetting,
    match,
    plan_prefill,
)
from llm_lite.core.messages import Gains
from llm_lite.core.quant.tensor import TensorData

PrefillProgress = Callable[[int, int], None]  # tokens done, tokens in all


WORTH_COPYING = 8  # positions: what a prefix of the pool must have more than the cache


class Session(CacheSteps):
    """A conversation in the cache, and copies of earlier ones in the pool.

    Positions that were computed with other weights or arithmetic than `made_by` are computed again.
    """

    def __init__(
        self,
        executor: Executor,
        weights: Mapping[str, TensorData] = MappingProxyType({}),
        *,
        made_by: str = "",
        model: str = "",
        pool: PrefixPool | None = None,
        files: MappedFiles = NO_FILES,
    ) -> None:
        super().__init__(executor, weights, made_by=made_by, model=model, files=files)
        self.pool = PrefixPool() if pool is None else pool
        self._name, self._conversation = "", 0  # of the conversation in the cache
        self._throughout = False  # only what was made with the gains in force counts as read
        self.speculation: Speculation | None = None  # drafts answers; None: token by token

    def see_source(self, tokens: Sequence[int]) -> None:
        """Record that another source is in place; what was made of the one before is forgotten."""
        self.clear()
        self._source = tuple(tokens)

    def clear(self) -> None:
        """Forget what the cache holds."""
        self._truncate(0)
        self._rows.begin_epoch()

    def set_gains(self, gains: Gains, *, throughout: bool = False) -> None:
        """Weigh the heads from the next step on; RequestError where these are not the model's.

        With `throughout`, positions computed with other gains are cleared.
        """
        self._gains.check(gains)
        self._throughout = throughout
        if gains != self.gains:
            self._gains.write(gains)
            self._gains.current = gains
            self._rows.gains_changed()
        kept = self.cache.good(None, gains) if throughout else len(self.cache)
        if kept < len(self.cache):
            self._keep_copy(kept)
            self._truncate(self.cache.longest_usable(kept))
            self._rows.begin_epoch()

    def check_gains(self, gains: Gains) -> None:
        """Raise RequestError unless there is a finite number for every head of the model."""
        self._gains.check(gains)

    def write_gains(self, gains: Gains) -> None:
        """Write the gains that the next step uses; `gains` stays what is in force."""
        self._gains.write(gains)

    def reusable(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of the prompt the cache holds; the last one never counts, as its
        logits are needed."""
        return self._prefill_plan(prompt, PLAIN).keep

    def prepare(self, prompt: Sequence[int], reading: PrefillOptions = PLAIN) -> Prepared:
        """Reuse positions of the cache or the pool that match the prompt, and drop the rest.

        RequestError where it is empty, or too long and nothing may be forgotten.
        """
        self.check(prompt, reading)
        if reading.afresh:
            self.clear()
        else:
            self._take_from_pool(prompt, reading)
        way = self._prefill_plan(prompt, reading)
        self._keep_copy(way.keep)
        if reading.name:
            self._name, self._conversation = reading.name, reading.conversation
        if way.keep < len(self.cache) and self._stale(way.keep):
            self._rows.begin_epoch()
        self._truncate(way.keep)
        self.cache.states.mark(way.keep)  # an edit of its last message goes on here
        if way.forget is not None:
            self._forget(*way.forget)
        gone = [(gap.first, gap.last) for gap in self.cache.gaps]
        if way.skip:
            gone.append((way.skip.start, way.skip.stop))
        return Prepared(tuple(prompt), reading, len(self.cache), tuple(gone), way.start, way.skip)

    def prefill(
        self,
        prompt: Sequence[int],
        should_stop: StopCheck | None = None,
        progress: PrefillProgress | None = None,
        reading: PrefillOptions = PLAIN,
    ) -> NDArray[np.float32]:
        """Read the whole prompt into the cache; logits float32 [V] of what follows it.

        RequestError where it is empty, or longer than the context and nothing may be forgotten;
        CancelledError when stopped, and then the cache holds the chunks that were finished.
        """
        logits = np.empty(0, np.float32)
        for step in self.prefill_chunks(self.prepare(prompt, reading), should_stop):
            logits = step.logits
            if progress:
                progress(step.done, step.total)
        return logits

    def prefill_chunks(
        self, prepared: Prepared, should_stop: StopCheck | None = None
    ) -> Iterator[Prefilled]:
        """Run what is left of a prompt, a chunk each time; CancelledError as `prefill`."""
        before, skipped, after = prepared.parts
        total = len(self.cache) + len(before) + len(after)
        for part in self._chunks(before):
            logits = self._run(part, 1, should_stop)[0]
            yield Prefilled(len(self.cache), total, logits)
        self.cache.skip(skipped)
        for part in self._chunks(after):
            logits = self._run(part, 1, should_stop)[0]
            yield Prefilled(len(self.cache), total, logits)
        self.cache.states.mark(len(self.cache))

    def logits(
        self, tokens: Sequence[int], should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Compute logits float32 [n, V] after every token, from an empty cache.

        The program must have been built with as many outputs as tokens in its largest plan.
        """
        self.check(tokens, PLAIN)
        self.clear()
        rows = np.empty((len(tokens), self.executor.program.vocabulary), np.float32)
        for part in self._chunks(tokens):
            start = len(self.cache)
            rows[start : start + len(part)] = self._run(part, len(part), should_stop)
        return rows

    def score(
        self, tokens: Sequence[int], first: int, step: int, should_stop: StopCheck | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield logits float32 [n, V] after each of the tokens from `first` on, n <= `step` at a
        time.

        What the cache shares with tokens[:first] is kept. `step` is at most `max_outputs`.
        """
        self.check(tokens, PLAIN)
        self.prepare(tokens[: first + 1])
        for part in self._chunks(tokens[len(self.cache) : first]):
            self._run(part, 1, should_stop)
        for start in range(first, len(tokens), step):
            part = tokens[start : start + step]
            yield self._run(part, len(part), should_stop)

    @property
    def max_outputs(self) -> int:
        """Return for how many tokens one step can give the logits."""
        return self.executor.program.max_outputs

    def make_room(self, reading: PrefillOptions) -> bool:
        """Return True if one more token fits, after forgetting something if the context is full."""
        if len(self.cache) < self.context:
            return True
        what = forgetting(reading.overflow, reading.head, self.context)
        if what is None or not self.cache.can_forget:
            return False
        self._forget(*what)
        return True

    def check(self, tokens: Sequence[int], reading: PrefillOptions) -> None:
        """Raise RequestError unless the tokens can be read as a prompt."""
        if self.executor.program.source and not self._source:
            raise RequestError(
                f"{self._model}: is an encoder-decoder, which writes about a source: "
                "`llm-lite translate` or `llm-lite generate`"
            )
        vocabulary = self.executor.program.vocabulary
        check_prompt(tokens, reading, context=self.context, vocabulary=vocabulary)

    def take_out(self, name: str = "") -> Prefix:
        """Copy all that the cache holds, for another executor or a file."""
        return self.cache.copy_out(name or self._name, self._conversation)

    def take_in(self, prefix: Prefix) -> int:
        """Hold what the prefix holds, as far as it fits, and return how many positions that are.

        What the cache held goes to the pool.
        """
        length = min(len(prefix.held.tokens), self.context)
        length = longest_usable(prefix, self.cache.layers, length)
        self._keep_copy(self.cache.same_as(prefix))
        self._name, self._conversation = prefix.name, prefix.conversation
        self.cache.copy_in(prefix, length)
        self._forget_queries()
        return length

    def take_over(self, other: Session) -> None:
        """Hold what another session over the same weights holds, with the queries that it keeps as
        far as there are rows for them, and its gains. DeviceError where they cannot be read."""
        self.set_gains(other.gains, throughout=other._throughout)
        if not other.context_used:
            return
        length = self.take_in(other.take_out())
        first = max(other.committed.rows.start, length - self._rows.ring_rows)
        if other.committed.rows and first < length == other.context_used:
            kept = {tensor.name for layer in self.cache.stored for tensor in layer.tensors}
            copy_rows(other.executor, self.executor, range(first, length), kept)
            self._commit(first)

    def _prefill_plan(self, prompt: Sequence[int], reading: PrefillOptions) -> PrefillPlan:
        usual = self.cache.good(*self._wanted(reading))
        rule = reading.overflow, reading.head, self.context
        way = plan_prefill(self.cache.held, prompt, usual, *rule)
        moves = way.forget is not None and not self.cache.can_forget
        if moves or not self.cache.usable(way.keep):
            most = 0 if moves else self.cache.longest_usable(way.keep)
            way = plan_prefill(self.cache.held, prompt, most, *rule)
        return way

    def _wanted(self, reading: PrefillOptions) -> tuple[str | None, Gains | None]:
        """Return the weights and gains that positions must have been computed with to be reused."""
        weights = None if reading.resumed else self.made_by
        # A conversation keeps what its own gains made of it; of another one, only what counts
        # that was made with the gains in force.
        own = reading.conversation == self._conversation and not self._throughout
        return weights, None if own else self.gains

    def _take_from_pool(self, prompt: Sequence[int], reading: PrefillOptions) -> None:
        gaps = reading.overflow != "stop" and len(prompt) > self.context

        def score(prefix: Prefix) -> int:
            fresh = good(prefix.held.made, self.made_by, self.gains, self.cache.precision)
            found = match(prefix.held, prompt, min(fresh, self.context), gaps=gaps)
            return longest_usable(prefix, self.cache.layers, found.positions)

        prefix, length = self.pool.best(score)
        if prefix is None or length < self._prefill_plan(prompt, reading).keep + WORTH_COPYING:
            return
        self.pool.touch(prefix)  # first: the copy may need the room of the least recently used
        self._keep_copy(self.cache.same_as(prefix))
        self.cache.copy_in(prefix, length)
        self._forget_queries()

    def _keep_copy(self, kept: int) -> None:
        """Copy the cache to the pool, if that is worth it, before all but the first `kept`
        positions are dropped."""
        worth = len(self.cache) - kept >= LEAST and self.pool.budget > 0
        worth = worth and not self._source  # the same tokens have other keys behind another source
        if worth and not self.pool.covers(self.cache.held):
            self.pool.put(self.cache.copy_out(self._name, self._conversation))

    def _stale(self, kept: int) -> bool:
        """Return True if positions from `kept` on are dropped because of their provenance, not of
        their tokens."""
        return self.cache.good(self.made_by, self.gains) <= kept

    def _forget(self, keep: int, drop: int) -> None:
        """Forget positions; queries that are kept move as positions do."""
        first = self._rows.first
        self.cache.forget(keep, drop)
        self._commit(first if first <= keep else max(keep, first - drop))
        self._rows.begin_epoch()

    def _forget_queries(self) -> None:
        """Forget all queries, as positions came from elsewhere without theirs."""
        self._commit(len(self.cache))
        self._rows.begin_epoch()

    def _chunks(self, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        return chunks(tokens, self.executor.program.chunk)
