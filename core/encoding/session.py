"""One text at a time on an encoder: its hidden states, its logits, and what maps are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import NO_FILES, MappedFiles
from llm_lite.core.finite import Values, checked
from llm_lite.core.inspect.attention import ring_tensor
from llm_lite.core.inspect.committed import Committed, CommittedRows
from llm_lite.core.inspect.head_gains import HeadGains
from llm_lite.core.messages import Gains
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]


class EncoderSession:
    """`committed` and `tokens` may be read from any thread, the rest belongs to one.

    `made_by` and `model` name weights, arithmetic and file in errors. `files` are what the model
    was made of: once one has changed, steps end in FileChangedError.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        has_head: bool,
        made_by: str = "",
        model: str = "",
        files: MappedFiles = NO_FILES,
    ) -> None:
        self.executor, self.files = executor, files
        self.has_head = has_head
        self.made_by, self._model = made_by, model
        ring = ring_tensor(executor.program)
        self._rows = CommittedRows(ring.shape[0] if ring else 0)
        self._caches = len(cache_layers(executor.program.plans[0]))
        self._gains = HeadGains(executor)
        self._tokens: tuple[int, ...] = ()

    @property
    def context(self) -> int:
        """The most tokens of a text."""
        return self.executor.program.context

    @property
    def committed(self) -> Committed:
        return self._rows.state

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """None: an encoder sees its own text alone."""
        return ()

    def tokens(self) -> tuple[int, ...]:
        """Those of the last text."""
        return self._tokens

    @property
    def gains(self) -> Gains:
        return self._gains.current

    def check_gains(self, gains: Gains) -> None:
        """RequestError where these are not the model's."""
        self._gains.check(gains)

    def set_gains(self, gains: Gains) -> None:
        """Weigh the heads from the next text on; RequestError where these are not the model's."""
        self._gains.check(gains)
        if gains != self.gains:
            self._gains.write(gains)
            self._gains.current = gains
            self._rows.gains_changed()

    def check(self, tokens: Sequence[int]) -> None:
        """RequestError unless the tokens are a text that the encoder can take."""
        vocabulary = self.executor.program.vocabulary
        check_text(tokens, context=self.context, vocabulary=vocabulary)

    def checked(self, values: Values, what: str) -> Values:
        """The same values; NotFiniteError that names the model where one is NaN or infinite."""
        return checked(values, what, self._model, self.made_by)

    def hidden(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> F32:
        """Hidden states float32 [tokens, width] behind the last layer; its keys and queries stay
        for maps. RequestError, CancelledError, NotFiniteError."""
        self.check(tokens)
        step = Step(np.asarray(tokens, np.int32), 0, 0)
        plan = self.executor.program.plan_for(step.count, 0)
        self._rows.commit(0, 0, self._oldest)  # the rows are written over
        with self.files.unchanged():
            states = states_of(self.executor, plan, step, should_stop)
        self._tokens = tuple(tokens)
        self._rows.commit(step.count, 0, self._oldest)
        self._rows.begin_epoch()
        return self.checked(states, "the hidden states")

    prefill = hidden  # as sources of maps call it

    def logits(self, tokens: Sequence[int], first: int = 0, count: int | None = None) -> F32:
        """Logits float32 [count, vocabulary] of the masked-token head for the tokens from `first`
        on; left out: for all behind. RequestError where the model has no such head."""
        if not self.has_head:
            raise RequestError(
                f"{self._model}: the model has no masked-token head, only hidden states"
            )
        states, end = self.hidden(tokens), len(tokens) if count is None else first + count
        most = self.executor.program.max_outputs
        parts = [
            self._head(tokens, states, at, min(most, end - at)) for at in range(first, end, most)
        ]
        return self.checked(np.concatenate(parts), "the logits of the text")

    def head_logits(self, states: F32, position: int) -> F32:
        """Logits [vocabulary] of the masked-token head for one token of the last text, of the
        hidden states [tokens, width] of all."""
        return self._head(self._tokens, states, position, 1)[0]

    def _head(self, tokens: Sequence[int], states: F32, first: int, count: int) -> F32:
        """What stands behind the layers, for some tokens."""
        executor = self.executor
        step = Step(np.asarray(tokens, np.int32), 0, count, first_output=first)
        plan = executor.program.plan_for(step.count, count)
        with self.files.unchanged():
            executor.write(plan, hidden_tensor(plan), step, states)
            executor.run_ops(plan, step, plan.layer_ends[-1] + 1, len(plan.ops))
            return executor.read(plan, plan.tensors[plan.logits], step)

    @property
    def _oldest(self) -> tuple[int, ...]:
        return (0,) * self._caches


def states_of(
    executor: Executor, plan: Plan, step: Step, should_stop: StopCheck | None = None
) -> F32:
    """Run a step without outputs: the hidden states [tokens, width] of all its tokens."""
    found, hidden = executor.run(step, should_stop), hidden_tensor(plan)
    if plan.logits == hidden.id and len(found) == step.count:
        return found  # a program without a head may have brought them along
    return executor.read(plan, hidden, step)


def hidden_tensor(plan: Plan) -> Tensor:
    """What the last layer of an encoder makes, [tokens, width]."""
    return plan.tensors[plan.ops[plan.layer_ends[-1]].outputs[0]]


def check_text(tokens: Sequence[int], *, context: int, vocabulary: int) -> None:
    """RequestError unless a text has tokens, of the vocabulary and no more than the context."""
    if not 0 < len(tokens) <= context:
        raise RequestError(f"expected a text of 1 to {context} tokens, found {len(tokens)}")
    low, high = min(tokens), max(tokens)
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")
