"""One conversation on one executor: what of a prompt needs work, prefill in chunks, decode.

A new prompt keeps the longest prefix that it shares with what the cache or the pool of recent
prefixes holds, so a turn, an edit or another branch prefills only what differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.exec.moving import copy_rows
from llm_lite.core.files.mapping import NO_FILES, MappedFiles
from llm_lite.core.finite import Values, checked
from llm_lite.core.generation.prefill import (
    PLAIN,
    Prefilled,
    PrefillOptions,
    Prepared,
    check_prompt,
    chunks,
)
from llm_lite.core.generation.speculation.draft import Likely, likely
from llm_lite.core.generation.speculation.lookahead import NOTHING_AHEAD, Lookahead
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.inspect.attention import ring_tensor
from llm_lite.core.inspect.inspected import Committed, CommittedRows, SequenceGains, SequenceShifts
from llm_lite.core.kv_cache.contents import (
    KvCache,
    Prefix,
    longest_usable,
    reusable_prefix_length,
)
from llm_lite.core.kv_cache.prefix_pool import LEAST, PrefixPool
from llm_lite.core.kv_cache.provenance import (
    Conditions,
    PrefillPlan,
    forgetting,
    match,
    plan_prefill,
)
from llm_lite.core.messages import Gains
from llm_lite.core.messages.interventions import LiveChanges, Shifts
from llm_lite.core.plan.ops import STATEFUL, STORES
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

PrefillProgress = Callable[[int, int], None]  # tokens done, tokens in all
StepRunner = Callable[[Step, StopCheck | None], NDArray[np.float32]]

WORTH_COPYING = 8  # positions: what a prefix of the pool must have more than the cache


class Session:
    """A conversation in the cache, and copies of earlier ones in the pool.

    `committed` and `tokens` may be read from any thread, the rest belongs to one. `weights` are
    those of the executor; `made_by` names them and its arithmetic: positions that were computed
    with others are computed again. `model` names its file in errors. `files` are what the model was
    made of: once one has changed, steps end in FileChangedError and the cache stays as it was.

    NotFiniteError from whatever computes logits, where these are no numbers; the cache then holds
    what it held before that step.
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
        self.executor = executor
        self.run_shared: StepRunner | None = None  # a step in which others have tokens, too
        self.files = files
        self.cache = KvCache(executor, weights)
        self.made_by = made_by
        self._model = model
        self._rows = CommittedRows(_countable_rows(executor.program))
        pages = executor.program.pages
        assert pages is not None, "a program whose sequences lie in pages"
        self._table = pages.first_table
        self._ahead = NOTHING_AHEAD
        self._gains, self._shifts = SequenceGains(executor), SequenceShifts(executor)
        self._conditions: Conditions | None = None  # made when they are needed, and then kept
        self._source: tuple[int, ...] = ()
        self.step_seconds = 0.0  # of the last step, the executor's part
        self.had_company = False  # the last step had tokens of others, too
        self.pool = PrefixPool() if pool is None else pool
        self._name, self._conversation = "", 0  # of the conversation in the cache
        self._throughout = False  # only positions computed with the gains in force are reused
        self.speculation: Speculation | None = None  # drafts answers; None: token by token

    def see_source(self, tokens: Sequence[int]) -> None:
        """Record the tokens of another source; what was computed about the previous one is
        forgotten."""
        self.clear()
        self._source = tuple(tokens)

    def clear(self) -> None:
        """Empty the cache."""
        self._truncate(0)
        self._rows.begin_epoch()

    def set_gains(self, gains: Gains, shifts: Shifts = (), *, throughout: bool = False) -> None:
        """Weigh the heads, and shift what layers leave, from the next step on; RequestError where
        these are not the model's. For shifts the program must have plans.

        With `throughout`, positions computed with other gains or shifts are cleared.
        """
        self._gains.check(gains)
        self._throughout = throughout
        if LiveChanges(gains, shifts) != self.changes:
            self._gains.write(gains)
            self._shifts.write(shifts)
            self._gains.current, self._shifts.current = gains, shifts
            self._conditions = None
            self._rows.gains_changed()
        kept = len(self.cache)
        if throughout:
            kept = self.cache.reusable_prefix_length(self.conditions, any_weights=True)
        if kept < len(self.cache):
            self._copy_before_truncating(kept)
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
        return self._prefill_plan(prompt, PLAIN).reused

    def prepare(self, prompt: Sequence[int], reading: PrefillOptions = PLAIN) -> Prepared:
        """Reuse positions of the cache or the pool that match the prompt, and drop the rest.

        RequestError where it is empty, or too long and nothing may be forgotten.
        """
        self.check(prompt, reading)
        if reading.afresh:
            self.clear()
        else:
            self._take_from_pool(prompt, reading)
        plan = self._prefill_plan(prompt, reading)
        self._copy_before_truncating(plan.reused)
        if reading.name:
            self._name, self._conversation = reading.name, reading.conversation
        if plan.reused < len(self.cache) and self._stale(plan.reused):
            self._rows.begin_epoch()
        self._truncate(plan.reused)
        self.cache.states.mark(plan.reused)  # an edit of its last message goes on here
        if plan.forget is not None:
            self._forget(*plan.forget)
        forgotten = [(gap.first, gap.last) for gap in self.cache.gaps]
        if plan.skip:
            forgotten.append((plan.skip.start, plan.skip.stop))
        return Prepared(
            tuple(prompt), reading, len(self.cache), tuple(forgotten), plan.start, plan.skip
        )

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

    def try_make_room(self, reading: PrefillOptions) -> bool:
        """Return True if one more token fits, after forgetting something if the context is full."""
        if len(self.cache) < self.context:
            return True
        positions = forgetting(reading.overflow, reading.head, self.context)
        if positions is None or not self.cache.can_forget:
            return False
        self._forget(*positions)
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

    def copy_prefix(self, name: str = "") -> Prefix:
        """Copy all that the cache holds, for another executor or a file."""
        return self.cache.copy_out(name or self._name, self._conversation)

    def restore_prefix(self, prefix: Prefix) -> int:
        """Replace the cache by a prefix, as far as it fits; return how many positions it has then.

        What was in the cache goes to the pool.
        """
        length = min(len(prefix.contents.tokens), self.context)
        length = longest_usable(prefix, self.cache.layers, length)
        self._copy_before_truncating(self.cache.same_as(prefix))
        self._name, self._conversation = prefix.name, prefix.conversation
        self.cache.copy_in(prefix, length)
        self._forget_queries()
        return length

    def continue_from(self, other: Session) -> None:
        """Hold what another session over the same weights holds, with the queries that it keeps as
        far as there are rows for them, and its gains. DeviceError where they cannot be read."""
        self.set_gains(other.gains, other.changes.shifts, throughout=other._throughout)
        if not other.context_used:
            return
        length = self.restore_prefix(other.copy_prefix())
        first = max(other.committed.rows.start, length - self._rows.ring_rows)
        if other.committed.rows and first < length == other.context_used:
            kept = {tensor.name for layer in self.cache.stored for tensor in layer.tensors}
            copy_rows(other.executor, self.executor, range(first, length), kept)
            self._commit(first)

    def _prefill_plan(self, prompt: Sequence[int], reading: PrefillOptions) -> PrefillPlan:
        # A conversation keeps what its own interventions made of it; of another one, only what
        # counts that was made with those in force.
        own = reading.conversation == self._conversation and not self._throughout
        usual = self.cache.reusable_prefix_length(
            self.conditions, any_weights=reading.resumed, any_changes=own
        )
        rule = reading.overflow, reading.head, self.context
        plan = plan_prefill(self.cache.contents, prompt, usual, *rule)
        moves = plan.forget is not None and not self.cache.can_forget
        if moves or not self.cache.usable(plan.reused):
            most = 0 if moves else self.cache.longest_usable(plan.reused)
            plan = plan_prefill(self.cache.contents, prompt, most, *rule)
        return plan

    def _take_from_pool(self, prompt: Sequence[int], reading: PrefillOptions) -> None:
        gaps = reading.overflow != "stop" and len(prompt) > self.context

        def score(prefix: Prefix) -> int:
            fresh = reusable_prefix_length(prefix.contents.conditions, self.conditions)
            found = match(prefix.contents, prompt, min(fresh, self.context), gaps=gaps)
            return longest_usable(prefix, self.cache.layers, found.positions)

        prefix, length = self.pool.best(score)
        if prefix is None or length < self._prefill_plan(prompt, reading).reused + WORTH_COPYING:
            return
        self.pool.touch(prefix)  # first: the copy may need the room of the least recently used
        self._copy_before_truncating(self.cache.same_as(prefix))
        self.cache.copy_in(prefix, length)
        self._forget_queries()

    def _copy_before_truncating(self, length: int) -> None:
        """Copy the cache to the pool, if that is worth it, before all but the first `length`
        positions are dropped."""
        worth = len(self.cache) - length >= LEAST and self.pool.budget > 0
        worth = worth and not self._source  # the same tokens have other keys behind another source
        if worth and not self.pool.covers(self.cache.contents):
            self.pool.put(self.cache.copy_out(self._name, self._conversation))

    def _stale(self, kept: int) -> bool:
        """Return True if positions from `kept` on are dropped because of their provenance, not of
        their tokens."""
        return self.cache.reusable_prefix_length(self.conditions) <= kept

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

    # Steps: what they write into the cache, and which part of it others may read.

    @property
    def context(self) -> int:
        return self.executor.program.context

    @property
    def source(self) -> int:
        """Return how many positions an encoder's keys and values have, seen by every step; 0:
        none."""
        return len(self._source)

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """Return the tokens of the encoder's source; from any thread."""
        return self._source

    def step(
        self,
        tokens: Sequence[int],
        start: int,
        outputs: int = 1,
        should_stop: StopCheck | None = None,
    ) -> Step:
        """Return the step over tokens of the conversation, from position `start` on. Where that
        takes a recurrent state that is not held, tokens before are run again first; RequestError
        where they were computed with other weights or interventions, CancelledError once
        `should_stop` says so: what was run by then stays, and nothing is lost."""
        self._run_again(start, should_stop)
        states = self.cache.states.next(start)
        shifted = bool(self._shifts.current)
        return self.executor.program.step(tokens, start, outputs, self.source, states, shifted)

    def step_by_step(
        self, tokens: Sequence[int], start: int, should_stop: StopCheck | None = None
    ) -> Step:
        """Return the step in which each token gets the bits and the logits of a step of its own.
        Errors as of `step`."""
        self._run_again(start, should_stop)
        count = len(tokens)
        states = self.cache.states.next_each(start, count)
        parts = tuple(
            Segment(start + i, 1, 1, self._table, states=own) for i, own in enumerate(states)
        )
        ids, shifted = np.asarray(tokens, np.int32), bool(self._shifts.current)
        return Step(ids, 0, count, parts, source=self.source, shifted=shifted)

    @property
    def context_used(self) -> int:
        return len(self.cache)

    @property
    def committed(self) -> Committed:
        return self._rows.state

    def tokens(self) -> tuple[int, ...]:
        """Return the tokens at the positions of the cache."""
        return tuple(self.cache.tokens)

    @property
    def gains(self) -> Gains:
        return self._gains.current

    @property
    def changes(self) -> LiveChanges:
        """Return the gains and shifts in force."""
        return self.conditions.interventions

    @property
    def conditions(self) -> Conditions:
        """Return the conditions under which the next step computes."""
        if self._conditions is None:
            changes = LiveChanges(self._gains.current, self._shifts.current)
            made = Conditions.of(self.made_by, changes)
            self._conditions = made.rounded(self.cache.precision)
        return self._conditions

    def decode(
        self,
        token: int,
        should_stop: StopCheck | None = None,
        draft: Sequence[int] = (),
    ) -> NDArray[np.float32]:
        """Append one token and return logits float32 [V] of what follows.

        The step also runs `draft`, at most `most_drafted` tokens that may follow: decoding them
        next, in their order, takes no step. The bits of logits, cache and queries are those of a
        step a token, and until a drafted token is decoded nothing tells that it has run.
        """
        position = len(self.cache)
        if self.is_ahead(token):
            self.step_seconds = 0.0
            row = self.checked(self._ahead.row(position), f"the logits of token {position}")
            self.cache.writing(position + 1)
            self.cache.states.count_ahead(position + 1)
            self._count([token], self._rows.first_after(position + 1))
            return row
        if not draft:
            return self._run([token], 1, should_stop)[0]
        return self._run_drafted((token, *draft), should_stop)

    def draft_by_slice(
        self, token: int, most: int, should_stop: StopCheck | None = None
    ) -> tuple[Likely, ...]:
        """Return what the program's slice expects behind `token`, and then behind the likeliest
        token each time: `most` places, or fewer where a step could not verify as many.

        Each takes a step of the slice. It reads and writes the cache of the whole model, behind
        what is counted: rows that `decode` writes again. Without a slice, none.
        """
        start, places, states = len(self.cache), list[Likely](), self.cache.states
        if not self.has_slice:
            return ()
        with states.scratch_steps():
            for position in range(start, start + min(most, self.most_drafted)):
                step = replace(self.step([token], position, 1, should_stop), sliced=True)
                logits, _ = self._execute(step, start + 1, should_stop)
                states.note_scratch(position, position + 1, step.states[0][1])
                places.append(likely(logits[0]))
                token = places[-1].token
        return tuple(places)

    @property
    def has_slice(self) -> bool:
        return self.executor.program.has_slice

    @property
    def token_ahead(self) -> int | None:
        """Return the drafted token whose logits are known already; None if there is none."""
        return self._ahead.next_token(len(self.cache), self.changes, self._rows.state.epoch)

    @property
    def tokens_ahead(self) -> tuple[int, ...]:
        """Return `token_ahead`, and the drafted tokens behind it."""
        if self.token_ahead is None:
            return ()
        return self._ahead.tokens[len(self.cache) - self._ahead.first :]

    def is_ahead(self, token: int) -> bool:
        """Return True if the logits behind this token, as the next one, are known already."""
        return self.token_ahead == token

    @property
    def most_drafted(self) -> int:
        """Return how many tokens one step can verify behind the one that it decodes; 0: it
        cannot."""
        fitting = self.context - len(self.cache) - 1
        return max(0, min(self.executor.program.most_drafted, fitting))

    @contextmanager
    def scratch_steps(self, start: int, count: int) -> Iterator[None]:
        """Steps inside, of `run_scratch`, may overwrite positions start..start+count-1; everything
        is restored on exit. Readers of the cache see none of the rows that are written over."""
        first = self._rows.first
        least = self._rows.first_after(start + count)
        with self.cache.scratch_steps(start, start + count):
            self._rows.commit(start, min(max(first, least), start), self.cache.oldest_rows())
            yield
        self._commit(first)

    def run_scratch(
        self, tokens: Sequence[int], start: int, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Run a step that the cache does not count; logits float32 [V] of what follows."""
        step, end = self.step(tokens, start, 1, should_stop), start + len(tokens)
        with self.files.unchanged():
            logits = self.executor.run(step, should_stop)
        self.cache.states.note_scratch(start, end, step.states[0][1])
        return self.checked(logits[0], f"the logits of token {start + len(tokens) - 1}")

    def forget_after(self, kept: int) -> None:
        """Drop positions from `kept` on, where the cache can go back as far."""
        if kept < len(self.cache) and self.cache.usable(kept):
            self._truncate(kept)

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        return checked(values, what, self._model, self.made_by)

    def _run(
        self, tokens: Sequence[int], outputs: int, should_stop: StopCheck | None
    ) -> NDArray[np.float32]:
        self._forget_ahead()
        step = self.step(tokens, len(self.cache), outputs, should_stop)
        logits, first = self._execute(step, step.kv_length, should_stop)
        for token, row in enumerate(logits, step.kv_length - len(logits)):
            self.checked(row, f"the logits of token {token}")
        self.cache.states.commit(step.first_position, step.kv_length, step.states[0][1])
        self._count(tokens, first)
        return logits

    def _run_again(self, length: int, should_stop: StopCheck | None) -> None:
        """Recompute the recurrent state behind the first `length` positions, unless it is there."""
        states = self.cache.states
        if states.holds(length):
            return
        if self.cache.reusable_prefix_length(self.conditions) < length:
            raise RequestError(
                f"the state behind {length} tokens is not held, and these were computed with other "
                "weights or interventions: send the conversation again"
            )
        done, chunk = states.longest(length), self.executor.program.chunk
        while done < length:
            part = self.cache.tokens[done : min(done + chunk, length)]
            step = self.step(part, done)
            plan = self.executor.program.plan_of(step)
            stateful = [index for index, op in enumerate(plan.ops) if op.name in STATEFUL]
            last = max(plan.layer_ends[-1], stateful[-1])  # behind the layers for what drafts
            ends = [0, *(index + 1 for index in (*plan.layer_ends[:-1], last))]
            with self.files.unchanged():  # keys, values and queries stay as they are
                for first, last in pairwise(ends):
                    if should_stop is not None and should_stop():
                        raise CancelledError("stopped")
                    self.executor.run_ops(plan, step, first, last, STORES)
            states.commit(done, step.kv_length, step.states[0][1], keep=True)
            done = step.kv_length

    def _run_drafted(
        self, tokens: tuple[int, ...], should_stop: StopCheck | None
    ) -> NDArray[np.float32]:
        """Run a step over drafted tokens; only the first one counts as decoded."""
        self._forget_ahead()
        start = len(self.cache)
        step = self.step_by_step(tokens, start, should_stop)
        logits, first = self._execute(step, start + 1, should_stop)
        self.checked(logits[0], f"the logits of token {start}")
        left = [slot for _, slot in step.states]
        self.cache.states.commit(start, start + 1, left[0])
        self.cache.states.note_ahead(start + 2, left[1:])
        self._count(tokens[:1], first)
        epoch = self._rows.state.epoch
        self._ahead = Lookahead(start + 1, tokens[1:], logits[1:], self.changes, epoch)
        return logits[0]

    def _execute(
        self, step: Step, counted: int, should_stop: StopCheck | None
    ) -> tuple[NDArray[np.float32], int]:
        """Run a step behind the cache, which will count positions up to `counted`; return its
        logits, and the first position whose query is kept then."""
        self._forget_ahead()
        first = self._rows.first_after(counted)
        self.cache.writing(counted)
        self._commit(min(first, step.first_position))  # the ring rows that this step writes over
        with self.files.unchanged():
            began = time.perf_counter()
            logits = (self.run_shared or self.executor.run)(step, should_stop)
            self.step_seconds = time.perf_counter() - began
        return logits, first

    def _forget_ahead(self) -> None:
        self._ahead = NOTHING_AHEAD
        self.cache.states.forget_ahead()

    def _count(self, tokens: Sequence[int], first: int) -> None:
        """Count positions that a step has written; queries are kept from `first` on."""
        self.cache.append(tokens, self.conditions)
        self._commit(first)

    def _truncate(self, length: int) -> None:
        self._forget_ahead()
        self.cache.truncate(length)
        self._commit(min(self._rows.first, length))

    def _commit(self, first_row: int) -> None:
        self._rows.commit(len(self.cache), first_row, self.cache.oldest_rows())


def _countable_rows(program: Program) -> int:
    """Return how many rows of query rings keep counted positions; drafted tokens are written to the
    others, so that they never cost the rows of tokens that came before. A ring of all positions
    needs none."""
    ring = ring_tensor(program)
    rows = ring.ring_rows if ring else 0
    return rows if rows >= program.context else max(0, rows - program.most_drafted)
