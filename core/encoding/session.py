"""One text at a time on an encoder: its hidden states, its logits, and what maps are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import NO_FILES, MappedFiles
from llm_lite.core.inspect.inspected_encoder import InspectedEncoder
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.plan.step import PAGE, Segment, Step

F32 = NDArray[np.float32]


class EncoderSession(InspectedEncoder):
    """Runs an encoder's program and its masked-token head, where it has one.

    `files` are what the model was made of: once one has changed, steps end in FileChangedError.
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
        super().__init__(executor, made_by=made_by, model=model)
        self.has_head, self.files = has_head, files

    @property
    def context(self) -> int:
        """Return the most tokens that a text may have."""
        return self.executor.program.context

    def check(self, tokens: Sequence[int]) -> None:
        """Raise RequestError unless the tokens are a text that the encoder can take."""
        vocabulary = self.executor.program.vocabulary
        check_text(tokens, context=self.context, vocabulary=vocabulary)

    def hidden(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> F32:
        """Return the hidden states float32 [tokens, width] behind the last layer; its keys and
        queries stay for maps. RequestError, CancelledError, NotFiniteError."""
        self.check(tokens)
        step = Step(np.asarray(tokens, np.int32), 0, 0)
        plan = self.executor.program.plan_for(step.count, 0)
        with self._encoding(tokens), self.files.unchanged():
            states = states_of(self.executor, plan, step, should_stop)
        return self.checked(states, "the hidden states")

    prefill = hidden  # as sources of maps call it

    def logits(self, tokens: Sequence[int], first: int = 0, count: int | None = None) -> F32:
        """Return logits float32 [count, vocabulary] of the masked-token head for the tokens from
        `first` on; without `count` for all behind. RequestError where the model has no such head.
        """
        if not self.has_head:
            raise RequestError(
                f"{self.model}: the model has no masked-token head, only hidden states"
            )
        states, end = self.hidden(tokens), len(tokens) if count is None else first + count
        most = self.executor.program.max_outputs
        parts = [
            self._head(tokens, states, at, min(most, end - at)) for at in range(first, end, most)
        ]
        return self.checked(np.concatenate(parts), "the logits of the text")

    def head_logits(self, states: F32, position: int) -> F32:
        """Return logits [vocabulary] of the masked-token head for one token of the last text, given
        the hidden states [tokens, width] of all."""
        return self._head(self._tokens, states, position, 1)[0]

    def _head(self, tokens: Sequence[int], states: F32, first: int, count: int) -> F32:
        """Run the masked-token head, the ops behind the layers, for `count` tokens from `first`
        on."""
        executor = self.executor
        step = Step(np.asarray(tokens, np.int32), 0, count, first_output=first)
        plan = executor.program.plan_for(step.count, count)
        with self.files.unchanged():
            executor.write(plan, hidden_tensor(plan), step, states)
            executor.run_ops(plan, step, plan.layer_ends[-1] + 1, len(plan.ops))
            return executor.read(plan, plan.tensors[plan.logits], step)


def states_of(
    executor: Executor, plan: Plan, step: Step, should_stop: StopCheck | None = None
) -> F32:
    """Run a step without outputs: the hidden states [tokens, width] of all its tokens."""
    found, hidden = executor.run(step, should_stop), hidden_tensor(plan)
    if plan.logits == hidden.id and len(found) == step.count:
        return found  # a program without a head may have brought them along
    return executor.read(plan, hidden, step)


def hidden_tensor(plan: Plan) -> Tensor:
    """Return the tensor of the last layer's hidden states, [tokens, width]."""
    return plan.tensors[plan.ops[plan.layer_ends[-1]].outputs[0]]


def check_text(tokens: Sequence[int], *, context: int, vocabulary: int) -> None:
    """Raise RequestError unless a text has tokens, all in the vocabulary and within the context."""
    if not 0 < len(tokens) <= context:
        raise RequestError(f"expected a text of 1 to {context} tokens, found {len(tokens)}")
    low, high = min(tokens), max(tokens)
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")


Tokens = Sequence[int]


class SharedTexts:
    """An executor whose steps take several texts, for one thread.

    Short texts share steps, each a segment with pages of its own, so that matrices are read once
    for all of them and nothing is padded.
    """

    def __init__(self, executor: Executor, *, files: MappedFiles = NO_FILES) -> None:
        assert executor.program.pages is not None
        self.executor, self._files = executor, files
        self._pages = executor.program.pages

    def hidden(self, texts: Sequence[Tokens]) -> Iterator[F32]:
        """Yield the hidden states float32 [tokens, width] of each text, in order. RequestError
        where the encoder cannot take a text."""
        program = self.executor.program
        for number, tokens in enumerate(texts):
            try:
                check_text(tokens, context=program.context, vocabulary=program.vocabulary)
            except RequestError as error:
                raise RequestError(f"text {number}: {error}") from None
        for pack in packs(texts, program.max_tokens, self._pages.segments, self._pages.pages):
            yield from self._step(pack)

    def _step(self, pack: Sequence[Tokens]) -> list[F32]:
        step = Step(np.concatenate(pack).astype(np.int32), 0, 0, tuple(_segments(pack)))
        plan = self.executor.program.plan_for(step.count, 0)
        with self._files.unchanged():
            states = states_of(self.executor, plan, step)
        return [states[first:end] for first, end in step.bounds]


def packs(
    texts: Sequence[Tokens], most_tokens: int, most_texts: int, pages: int
) -> Iterator[list[Tokens]]:
    """Yield groups of texts, in order, that each fit into one step."""
    pack: list[Tokens] = []
    for tokens in texts:
        wider = [*pack, tokens]
        fits = sum(map(len, wider)) <= most_tokens and sum(map(pages_of, wider)) <= pages
        if pack and (not fits or len(wider) > most_texts):
            yield pack
            wider = [tokens]
        pack = wider
    if pack:
        yield pack


def pages_of(tokens: Tokens) -> int:
    return -(-len(tokens) // PAGE)


def _segments(pack: Sequence[Tokens]) -> Iterator[Segment]:
    at = 0
    for tokens in pack:
        count = pages_of(tokens)
        yield Segment(0, len(tokens), 0, np.arange(at, at + count, dtype=np.int32))
        at += count


def in_order_of_length(
    texts: Sequence[Tokens], run: Callable[[Sequence[Tokens]], Iterator[F32]]
) -> list[F32]:
    """Return what `run` yields for each text; texts of similar length are run together, so that
    steps are full."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found: list[F32] = [np.zeros(0, np.float32)] * len(texts)
    for i, made in zip(order, run([texts[i] for i in order]), strict=True):
        found[i] = made
    return found
