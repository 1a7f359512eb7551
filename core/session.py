"""One conversation on one executor: what the cache holds, prefill in chunks, decode.

The cache is a list of tokens by position. A new prompt keeps the longest prefix that it shares
with it, so a turn, an edit or another branch prefills only what differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.attention import ring_tensor
from core.errors import RequestError
from core.exec.executor import Executor, StopCheck
from core.messages import Gains, SamplingOptions
from core.plan.attention_layers import HEAD_GAINS
from core.plan.step import Step
from core.sampling import Choice, Sampler, judge

PrefillProgress = Callable[[int, int], None]  # tokens done, tokens in all


@dataclass(frozen=True, slots=True)
class Committed:
    """What the cache and the query rings hold between two steps."""

    version: int  # grows with every change
    length: int  # positions in the cache
    rows: range  # positions whose queries are kept
    era: int = 0  # grows when everything is forgotten: equal tokens then have other keys


class Session:
    """`committed` and `tokens` may be read from any thread, the rest belongs to one."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._cached: list[int] = []
        ring = ring_tensor(executor.program)
        self._ring_rows = ring.shape[0] if ring else 0
        self._gains_tensor = next(
            t for t in executor.program.plans[0].tensors if t.name == HEAD_GAINS
        )
        self._gains: Gains = ((1.0,) * self._gains_tensor.shape[1],) * self._gains_tensor.shape[0]
        self._made_with: Gains | None = None  # all positions of the cache; None: not all the same
        self.before_step: Callable[[], None] = lambda: None  # for whoever has work between steps
        self.committed = Committed(0, 0, range(0))

    @property
    def context(self) -> int:
        return self.executor.program.context

    @property
    def context_used(self) -> int:
        return len(self._cached)

    def tokens(self) -> tuple[int, ...]:
        """The tokens at the positions of the cache."""
        return tuple(self._cached)

    def clear(self) -> None:
        """Forget what the cache holds."""
        self._truncate(0)
        committed = self.committed
        self.committed = replace(committed, version=committed.version + 1, era=committed.era + 1)

    @property
    def gains(self) -> Gains:
        return self._gains

    def set_gains(self, gains: Gains, *, throughout: bool = False) -> None:
        """Weigh the heads from the next step on; RequestError where these are not the model's.

        With `throughout`, a cache that was not made with just these is cleared.
        """
        self.check_gains(gains)
        if gains != self._gains:
            self.write_gains(gains)
            self._gains = gains
            self.committed = replace(self.committed, version=self.committed.version + 1)
        if throughout and self._made_with != gains:
            self.clear()

    def check_gains(self, gains: Gains) -> None:
        """RequestError unless there is a finite number for every head of the model."""
        layers, heads = self._gains_tensor.shape
        if len(gains) != layers or any(len(row) != heads for row in gains):
            raise RequestError(f"gains: expected {layers} layers of {heads} heads each")
        if not all(abs(gain) <= 3e38 for row in gains for gain in row):  # of float32; NaN fails
            raise RequestError("gains: expected finite numbers")

    def write_gains(self, gains: Gains) -> None:
        """What the next step uses, and no more; `gains` stays what is in force."""
        plan = self.executor.program.plans[0]
        values = np.array(gains, np.float32)
        self.executor.write(plan, self._gains_tensor, Step(np.zeros(1, np.int32), 0), values)

    def reusable(self, prompt: Sequence[int]) -> int:
        """How many tokens of the prompt need no work; the last one always does, for its logits."""
        limit = min(len(self._cached), len(prompt) - 1)
        same = 0
        while same < limit and self._cached[same] == prompt[same]:
            same += 1
        return same

    def prefill(
        self,
        prompt: Sequence[int],
        should_stop: StopCheck | None = None,
        progress: PrefillProgress | None = None,
    ) -> NDArray[np.float32]:
        """Bring the whole prompt into the cache; logits float32 [V] of what follows it.

        RequestError where it is empty or longer than the context; CancelledError when stopped,
        and then the cache holds the chunks that were finished.
        """
        self._check(prompt)
        reused = self.reusable(prompt)
        self._truncate(reused)
        chunk = self.executor.program.max_tokens
        logits = np.empty((0, 0), np.float32)
        for start in range(reused, len(prompt), chunk):
            logits = self._run(prompt[start : start + chunk], 1, should_stop)
            if progress:
                progress(len(self._cached), len(prompt))
        return logits[0]

    def logits(
        self, tokens: Sequence[int], should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Logits float32 [n, V] after every token, computed from an empty cache.

        The program must have been built with as many outputs as tokens in its largest plan.
        """
        self._check(tokens)
        self.clear()
        chunk = self.executor.program.max_tokens
        rows = np.empty((len(tokens), self.executor.program.vocabulary), np.float32)
        for start in range(0, len(tokens), chunk):
            part = tokens[start : start + chunk]
            rows[start : start + len(part)] = self._run(part, len(part), should_stop)
        return rows

    def score(
        self, tokens: Sequence[int], first: int, step: int, should_stop: StopCheck | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """Logits float32 [n, V] after each of the tokens from `first` on, n <= `step` at a time.

        What the cache shares with tokens[:first] is kept. `step` is at most `max_outputs`.
        """
        self._check(tokens)
        reused = min(self.reusable(tokens), first)
        self._truncate(reused)
        chunk = self.executor.program.max_tokens
        for start in range(reused, first, chunk):
            self._run(tokens[start : min(start + chunk, first)], 1, should_stop)
        for start in range(first, len(tokens), step):
            part = tokens[start : start + step]
            yield self._run(part, len(part), should_stop)

    @property
    def max_outputs(self) -> int:
        """Of how many tokens one step can give the logits."""
        return max(plan.max_outputs for plan in self.executor.program.plans)

    def decode(self, token: int, should_stop: StopCheck | None = None) -> NDArray[np.float32]:
        """Append one token; logits float32 [V] of what follows."""
        return self._run([token], 1, should_stop)[0]

    def generate(
        self,
        prompt: Sequence[int],
        sampling: SamplingOptions,
        end_tokens: frozenset[int],
        should_stop: StopCheck | None = None,
        progress: PrefillProgress | None = None,
        forced: Sequence[int] = (),
    ) -> Iterator[Choice]:
        """Tokens as they are chosen, the end token included.

        Ends after an end token, after `max_new_tokens`, or when the context is full. A token is
        decoded only when the caller asks for the next one. `forced` tokens come first, whatever
        they are; of these only the last is judged.
        """
        sampler = Sampler(sampling)
        tokens = [*prompt, *forced]
        self._check(tokens)
        logits = self.prefill(tokens[:-1] if forced else tokens, should_stop, progress)
        if forced:
            yield from (Choice(token, math.nan) for token in forced[:-1])
            yield judge(logits, forced[-1])
            if forced[-1] in end_tokens or self.context_used >= self.context:
                return
            logits = self.decode(forced[-1], should_stop)
        for produced in range(1, sampling.max_new_tokens + 1):
            choice = sampler.choose(logits, tokens)
            tokens.append(choice.token)
            yield choice
            last = produced == sampling.max_new_tokens or choice.token in end_tokens
            if last or self.context_used >= self.context:
                return
            logits = self.decode(choice.token, should_stop)

    def _run(
        self, tokens: Sequence[int], outputs: int, should_stop: StopCheck | None
    ) -> NDArray[np.float32]:
        self.before_step()
        start = len(self._cached)
        step = Step(np.asarray(tokens, np.int32), start, outputs)
        first = max(self.committed.rows.start, step.kv_length - self._ring_rows)
        self._commit(min(first, start))  # the ring rows that this step writes over
        if start == 0:
            self._made_with = self._gains
        elif self._made_with != self._gains:
            self._made_with = None
        logits = self.executor.run(step, should_stop)
        self._cached.extend(tokens)
        self._commit(first)
        return logits

    def _truncate(self, length: int) -> None:
        del self._cached[length:]
        self._commit(min(self.committed.rows.start, length))

    def _commit(self, first_row: int) -> None:
        length = len(self._cached)
        rows = range(first_row, length) if self._ring_rows else range(0)
        if (length, rows) != (self.committed.length, self.committed.rows):
            version = self.committed.version + 1
            self.committed = replace(self.committed, version=version, length=length, rows=rows)

    def _check(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise RequestError("the prompt is empty: it has no tokens")
        if len(tokens) > self.context:
            raise RequestError(
                f"the prompt has {len(tokens)} tokens, but the context holds {self.context}; "
                "shorten it or load the model with a larger context"
            )
        vocabulary = self.executor.program.vocabulary
        if min(tokens) < 0 or max(tokens) >= vocabulary:
            outside = next(t for t in tokens if not 0 <= t < vocabulary)
            raise RequestError(f"token {outside} is outside the vocabulary of {vocabulary} tokens")
