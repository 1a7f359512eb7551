"""The slice of a model drafts for an answer that a server writes."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.likely import Likely, likely
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.sequence import PagedTokens


class PagedSlice(Struct):
    """It runs the slice of a batch's program over the pages of one answer at a time."""

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
