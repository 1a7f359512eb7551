"""Vectors of many texts: short ones share steps, each a segment with pages of its own, so that
matrices are read once for all of them and nothing is padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.encoding.session import check_text, states_of
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import NO_FILES, MappedFiles
from llm_lite.core.plan.step import PAGE, Segment, Step

F32 = NDArray[np.float32]
Tokens = Sequence[int]


class SharedTexts:
    """An executor whose steps take several texts. For one thread."""

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
