"""An answer that runs alone is drafted: its text, a smaller model or the model's own slice says
which tokens come next, and the answer's step verifies them.

Each drafted token is a segment of its own behind the answer's next one, in the same pages of the
cache. A segment of one token gets the bits that it has in a step by itself, whatever else is in the
step, so that answers are the same with drafts and without. Where several answers share steps
nothing is drafted: their tokens take the places that drafts would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import DraftSource, Likely, likely
from llm_lite.core.generation.speculation.draft_model import DraftModel
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.slice_source import SliceDraftSource
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.loading.client_room import speculate_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import StartServing
from llm_lite.core.records import replace
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.scheduler import CHUNK, StepPart
from llm_lite.core.serving.sequence import PagedTokens
from llm_lite.core.serving.tally import Tally


class PagedSlice(Struct):
    """The slice of a batch's program, which runs over the pages of one answer at a time."""

    batch: Batch
    paged: PagedTokens | None = None  # of that answer; None: nothing is drafted

    def draft_by_slice(
        self, token: int, most: int, should_stop: StopCheck | None = None
    ) -> tuple[Likely, ...]:
        """Return what the slice expects behind `token`, the answer's next one, and then behind the
        likeliest token each time: `most` places, or as many as there are pages for.

        Each takes a step of the slice. It reads and writes the answer's pages behind what counts as
        computed: rows that the step which verifies writes again.
        """
        paged, places = self.paged, list[Likely]()
        if paged is None:
            return ()
        for after in range(most):
            if not paged.extend(self.batch.pool, paged.computed + after + 1):
                break
            logits = self.batch.draft(token, paged.segment(1, 1, after), should_stop)
            places.append(likely(logits))
            token = places[-1].token
        return tuple(places)


MOST_IN_A_STEP = 16  # tokens of one answer: its next one, and drafts


class ServedDrafts(Struct):
    """The drafts belong to one batch and to the engine's thread. What was learned stays from one
    answer to the next."""

    speculation: Speculation | None = None  # None: nothing is drafted
    _slice: PagedSlice | None = None  # that is one of its sources
    _model: DraftModel | None = None  # likewise

    def extended(
        self, parts: list[StepPart], places: int, pool: PagePool, is_closing: StopCheck
    ) -> list[StepPart]:
        """Return the parts of a step with drafts, if the step is one answer's next token alone
        and has `places` for more."""
        part = written_alone(parts)
        if part is None:
            return parts
        answer, paged = part.answer, part.answer.paged
        answer.drafts.speculation = self.speculation
        if self._slice is not None:
            self._slice.paged = paged
        most, drafted = min(places, MOST_IN_A_STEP, answer.left) - 1, tuple[int, ...]()
        with suppress(CancelledError):  # told as the next step begins
            should_stop = lambda: answer.is_cancelled or is_closing()  # noqa: E731
            drafted = answer.drafts.propose(paged.tokens, most, should_stop)
        while drafted and not paged.extend(pool, paged.computed + 1 + len(drafted)):
            drafted = drafted[:-1]
        return [replace(part, drafted=drafted)]

    def close(self) -> None:
        """Leave the draft model to the chat alone, which waits until it has read a text."""
        if self._model is not None:
            self._model.most_read = DraftModel.most_read


def written_alone(parts: Sequence[StepPart]) -> StepPart | None:
    """Return the part of a step that is one answer's next token alone, neither of its prompt nor
    computed again; None where there is no such part."""
    if len(parts) != 1 or parts[0].answer.paged.is_reading:
        return None
    (part,) = parts
    return part if part.count == part.outputs == 1 else None


def drafted_batch(
    runner: Runner, options: StartServing, tally: Tally
) -> tuple[Batch, ServedDrafts]:
    """Return the batch of a runner with room for clients, and what makes their drafts."""
    batch, chosen = Batch(runner, options, tally), speculate_of(runner, options)
    if chosen == "off":
        return batch, ServedDrafts()
    sources: list[DraftSource] = [LookupSource()]
    model = runner.draft.source if options.by_draft_model and runner.draft is not None else None
    paged = PagedSlice(batch) if chosen == "slice" else None
    if paged is not None:
        sources.append(SliceDraftSource(paged))
    if model is not None:
        model.most_read = CHUNK  # clients do not wait while it reads a long text, the chat's either
        sources.append(model)
    policy = LongestDrafts() if chosen == "lookup" else None
    return batch, ServedDrafts(Speculation(sources, policy), paged, model)
