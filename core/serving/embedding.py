"""A language model makes vectors of texts: what it holds of a text before it writes anything.

A vector is the mean over the text's tokens of the last hidden state, behind the model's output
norm, divided by its length. Sentence-BERT found the mean of all tokens best (Reimers and Gurevych
2019, https://arxiv.org/abs/1908.10084), and llama.cpp takes it for models without a pooling of
their own; behind the norm, so that no single large channel of the residual stream outweighs all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

from llm_lite.core.errors import NotFiniteError, RequestError
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import PAGE, Segment, pages_for
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.sequence import PagedTokens
from llm_lite.core.serving.service import F32, Embeddings


class Embedding:
    """Texts become vectors, a step at a time; `result` is for the thread that asked.

    An embedding uses pages that no answer needs: where there are none it waits, and where an answer
    comes to need those of a text in the middle of it, it releases them and begins that text again.
    """

    def __init__(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> None:
        """Take texts whose lengths `check_texts` allows."""
        self.result: Future[Embeddings] = Future()
        self._texts, self._is_unwanted = texts, is_unwanted
        self._vectors: list[F32] = []
        self._pack: list[PagedTokens] = []  # texts of the step: short ones share it
        self._sums: list[F32] = []
        self._is_waiting = False

    @property
    def holds_pages(self) -> bool:
        return bool(self._pack)

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for pages."""
        return self._is_waiting

    def advance(self, batch: Batch) -> bool:
        """Run a step, if there are pages for it; return whether all is done. Errors of the
        executor pass through; RequestError where nobody wants the vectors any more."""
        if self._is_unwanted():
            raise RequestError("nobody waits for these embeddings any more")
        self._is_waiting = not self._pack and not self._begin_pack(batch)
        if self._is_waiting:
            return False
        counts = [paged.next_count() for paged in self._pack]
        if not self._extend(counts, batch.pool):
            self._is_waiting = True
            return False
        tokens = [
            t for paged, n in zip(self._pack, counts, strict=True) for t in paged.next_tokens(n)
        ]
        segments = tuple(p.segment(n, 0) for p, n in zip(self._pack, counts, strict=True))
        states, at = hidden_states(batch, tokens, segments), 0
        for index, (paged, count) in enumerate(zip(self._pack, counts, strict=True)):
            self._sums[index] = self._sums[index] + states[at : at + count].sum(axis=0)
            paged.compute(batch.pool, count)
            at += count
        if not self._pack[0].missing:
            self._end_pack(batch)
        if len(self._vectors) == len(self._texts):
            total = sum(map(len, self._texts))
            self.result.set_result(Embeddings(np.stack(self._vectors), total))
            return True
        return False

    def fail(self, error: BaseException, batch: Batch | None = None) -> None:
        """End with this error; return the pages to the pool of the batch, if that is left."""
        if batch is not None:
            self.release_pages(batch.pool)
        self._pack = []
        if not self.result.done():
            self.result.set_exception(error)

    def release_pages(self, pool: PagePool) -> bool:
        """Release the pages, to begin the text again later; return False where it has none."""
        pack = self._pack
        for paged in pack:
            paged.free_pages(pool, keep=False)
        self.restart()
        return bool(pack)

    def restart(self) -> None:
        """Begin the text again on another executor, whose pages are empty."""
        self._pack, self._sums = [], []

    def _begin_pack(self, batch: Batch) -> bool:
        """Begin the next text, and others as far as all fit into one step and into pages; return
        False where none can begin now."""
        texts = self._texts[len(self._vectors) :]
        check_texts(texts[:1], batch.context, batch.vocabulary)  # another executor, perhaps
        count, total, pages = 1, len(texts[0]), batch.program.pages
        available = batch.pool.available
        if available < pages_for(len(texts[0])):
            return False
        # Each has a page of its own.
        most = min(pages.segments, batch.pool.fillable) if pages else 1
        while count < min(len(texts), most) and total + len(texts[count]) <= PAGE:
            total += len(texts[count])
            count += 1
        pack = [PagedTokens(list(tokens), pages_for(len(tokens))) for tokens in texts[:count]]
        for paged in pack:
            paged.reserve(batch.pool, len(paged.tokens))
            paged.slot = batch.slots.plain
        self._pack, self._sums = pack, [np.float32(0)] * count  # type: ignore[list-item]
        return True

    def _extend(self, counts: Sequence[int], pool: PagePool) -> bool:
        """Place the pages of the next step's tokens; return False, without any pages, where answers
        have all places."""
        for paged, count in zip(self._pack, counts, strict=True):
            if not paged.extend(pool, paged.computed + count):
                self.release_pages(pool)
                return False
        return True

    def _end_pack(self, batch: Batch) -> None:
        for paged, total in zip(self._pack, self._sums, strict=True):
            mean = total / len(paged.tokens)
            length = float(np.linalg.norm(mean))
            if not np.isfinite(length) or not length:
                raise NotFiniteError("the embedding is not a finite vector: values overflow")
            self._vectors.append((mean / length).astype(np.float32))
            paged.free_pages(batch.pool, keep=False)
        self._pack = []


def check_texts(texts: Sequence[Sequence[int]], context: int, vocabulary: int) -> None:
    """Raise RequestError unless each text has tokens, of the vocabulary and no more than the
    context."""
    for number, tokens in enumerate(texts):
        if not 0 < len(tokens) <= context:
            raise RequestError(
                f"text {number}: expected 1 to {context} tokens, found {len(tokens)}"
            )
        if min(tokens) < 0 or max(tokens) >= vocabulary:
            raise RequestError(f"text {number}: a token is not in 0..{vocabulary - 1}")


def hidden_states(batch: Batch, tokens: Sequence[int], segments: tuple[Segment, ...]) -> F32:
    """Return float32 [tokens, width], behind the output norm; no logits are computed. The keys
    and values go into the segments' pages."""
    executor = batch.executor
    plan = batch.program.plan_for(len(tokens), 0)
    step = batch.step(tokens, segments)
    first = _output_rows(plan)
    with batch.runner.session.files.unchanged():
        executor.run_ops(plan, step, 0, first)
        states = executor.read(plan, plan.tensors[plan.ops[first].inputs[0]], step)
        most = plan.max_outputs  # rows that can go on at once
        parts = [_normed(batch, states[at : at + most]) for at in range(0, len(states), most)]
    return batch.runner.session.checked(np.concatenate(parts), "the hidden states")


def _normed(batch: Batch, states: F32) -> F32:
    """Return the residual stream of some tokens behind what stands between the layers and the
    head."""
    count, executor = len(states), batch.executor
    plan = batch.program.plan_for(count, count)
    segment = Segment(0, count, count, np.zeros(1, np.int32))  # nothing is stored in its page
    step = batch.step(np.zeros(count, np.int32), (segment,))
    first = _output_rows(plan)
    head = max(i for i, op in enumerate(plan.ops) if op.name == "matmul")
    executor.write(plan, plan.tensors[plan.ops[first].inputs[0]], step, states)
    executor.run_ops(plan, step, first, head)
    return executor.read(plan, plan.tensors[plan.ops[head].inputs[0]], step)


def _output_rows(plan: Plan) -> int:
    """Return the op behind the layers."""
    return next(i for i, op in enumerate(plan.ops) if op.name == "output_rows")
