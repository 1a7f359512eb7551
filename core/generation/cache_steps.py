"""Steps of one conversation: what they write into the cache, and which part of it others may
read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values, checked
from llm_lite.core.generation.speculation.draft import Likely, likely
from llm_lite.core.generation.speculation.lookahead import NOTHING_AHEAD, Lookahead
from llm_lite.core.inspect.attention import ring_tensor
from llm_lite.core.inspect.inspected import Committed, CommittedRows, SequenceGains
from llm_lite.core.kv_cache.contents import KvCache
from llm_lite.core.kv_cache.provenance import Provenance
from llm_lite.core.messages import Gains
from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

StepRunner = Callable[[Step, StopCheck | None], NDArray[np.float32]]


class CacheSteps:
    """The steps of a session. `committed` and `tokens` may be read from any thread, the rest
    belongs to one.

    `weights` are those of the executor; `made_by` names them and its arithmetic. `model` names its
    file in errors. `files` are what the model was made of: once one has changed, steps end in
    FileChangedError and the cache stays as it was.

    NotFiniteError from whatever computes logits, where these are no numbers; the cache then holds
    what it held before that step.
    """

    def __init__(
        self,
        executor: Executor,
        weights: Mapping[str, TensorData],
        *,
        made_by: str,
        model: str,
        files: MappedFiles,
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
        self._gains = SequenceGains(executor)
        self._source: tuple[int, ...] = ()
        self.step_seconds = 0.0  # of the last step, the executor's part
        self.had_company = False  # the last step had tokens of others, too

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
        where they were computed with other weights or gains, CancelledError once `should_stop` says
        so: what was run by then stays, and nothing is lost."""
        self._run_again(start, should_stop)
        states = self.cache.states.next(start)
        return self.executor.program.step(tokens, start, outputs, self.source, states)

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
        return Step(np.asarray(tokens, np.int32), 0, count, parts, source=self.source)

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
        with states.beside():
            for position in range(start, start + min(most, self.most_drafted)):
                step = replace(self.step([token], position, 1, should_stop), sliced=True)
                logits, _ = self._execute(step, start + 1, should_stop)
                states.pass_by(position, position + 1, step.states[0][1])
                places.append(likely(logits[0]))
                token = places[-1].token
        return tuple(places)

    @property
    def has_slice(self) -> bool:
        return self.executor.program.has_slice

    @property
    def token_ahead(self) -> int | None:
        """Return the drafted token whose logits are known already; None if there is none."""
        return self._ahead.next_token(len(self.cache), self.gains, self._rows.state.epoch)

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
    def beside(self, start: int, count: int) -> Iterator[None]:
        """Within, `run_beside` may write positions start..start+count-1; afterwards all is as it
        was. Readers of the cache see none of the rows that are written over meanwhile."""
        first = self._rows.first
        least = self._rows.first_after(start + count)
        with self.cache.beside(start, start + count):
            self._rows.commit(start, min(max(first, least), start), self.cache.oldest_rows())
            yield
        self._commit(first)

    def run_beside(
        self, tokens: Sequence[int], start: int, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Run a step that the cache does not count; logits float32 [V] of what follows."""
        step, end = self.step(tokens, start, 1, should_stop), start + len(tokens)
        with self.files.unchanged():
            logits = self.executor.run(step, should_stop)
        self.cache.states.pass_by(start, end, step.states[0][1])
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
        """Hold the recurrent state behind the first `length` positions."""
        states = self.cache.states
        if states.holds(length):
            return
        if self.cache.good(self.made_by, self.gains) < length:
            raise RequestError(
                f"the state behind {length} tokens is not held, and these were computed with other "
                "weights or gains: send the conversation again"
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
                    self.executor.run_ops(plan, step, first, last, ("store",))
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
        self._ahead = Lookahead(start + 1, tokens[1:], logits[1:], self.gains, epoch)
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
        self.cache.append(tokens, Provenance(self.made_by, self.gains, self.cache.precision))
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
