"""An answer that runs alone is drafted: its text, a smaller model or the model's own slice says
which tokens come next, and the answer's step verifies them.

Each drafted token is a segment of its own behind the answer's next one, in the same pages of the
cache. A segment of one token gets the bits that it has in a step by itself, whatever else is in the
step, so that answers are the same with drafts and without. Where several answers share steps
nothing is drafted: their tokens take the places that drafts would have.

Other clients wait while a text is read for its first draft, so a piece of it is read between two
steps: the answer goes on without drafts meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import DraftSource, Likely, likely
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.slice_source import SliceDraftSource
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.loading.client_room import speculate_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import StartServing
from llm_lite.core.records import replace
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.scheduler import CHUNK, StepPart
from llm_lite.core.serving.sequence import PagedTokens


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
PIECE = 2048  # tokens of a text that sources hear of between two steps: some milliseconds


class ServedDrafts(Struct):
    """The drafts belong to one batch and to the engine's thread. What was learned stays from one
    answer to the next."""

    speculation: Speculation | None = None  # None: nothing is drafted
    _slice: PagedSlice | None = None  # that is one of its sources
    _text: list[int] = field(default_factory=list)  # of the answer that was drafted last; it grows
    _known: int = 0  # first tokens of it that the sources know

    def extended(
        self, parts: list[StepPart], places: int, pool: PagePool, is_closing: StopCheck
    ) -> list[StepPart]:
        """Return the parts of a step with drafts, if the step is one answer's next token alone
        and has `places` for more."""
        part = _written_alone(parts)
        if part is None or self.speculation is None or not self._update(part.answer.paged.tokens):
            return parts
        answer, paged = part.answer, part.answer.paged
        most = min(places, MOST_IN_A_STEP, answer.left) - 1
        drafted = self._propose(answer, most, is_closing)
        while drafted and not paged.extend(pool, paged.computed + 1 + len(drafted)):
            drafted = drafted[:-1]
        return [replace(part, drafted=drafted)]

    def note_step(self, parts: Sequence[StepPart], seconds: float) -> None:
        """Note that a step of these parts took so many seconds."""
        part = _written_alone(parts)
        if part is not None and self.speculation is not None:
            self.speculation.note_pass(1 + len(part.drafted), seconds)

    def count(self, part: StepPart, accepted: int, seconds: float) -> None:
        """Note how many drafts of a part were accepted, and the seconds that its step took."""
        counts, drafted = part.answer.counts, len(part.drafted)
        single, source, drafting = 0.0, "", 0.0
        if self.speculation is not None and part.answer.paged.tokens is self._text:
            single = self.speculation.policy.costs.seconds(1)
            source, drafting = self.speculation.drafted_by, self.speculation.drafting_seconds
            self.speculation.drafting_seconds = 0.0  # counted once, whatever the next step has
        counts.note_pass(drafted, seconds, single, source, drafting)
        for _ in range(accepted):
            counts.note_accepted(single, source)

    def _update(self, text: list[int]) -> bool:
        """Give the sources a piece of what is new in the text, and the outcome of the last
        drafts; return whether they know all of the text."""
        assert self.speculation is not None
        if text is self._text:
            new = text[self._known : self._known + PIECE]
            self.speculation.record_outcome(new)
            for token in new:
                self.speculation.add(token)
            self._known += len(new)
        else:
            known = self._text[: self._known]
            same = self._known if text[: self._known] == known else 0
            self._text, self._known = text, min(max(same, PIECE), len(text))
            self.speculation.begin(text[: self._known])
        return self._known == len(text)

    def _propose(self, answer: ServedAnswer, most: int, is_closing: StopCheck) -> tuple[int, ...]:
        assert self.speculation is not None

        def should_stop() -> bool:
            return answer.is_cancelled or is_closing()

        if self._slice is not None:
            self._slice.paged = answer.paged
        try:
            return self.speculation.propose(most, answer.end_tokens, should_stop).tokens
        except CancelledError:  # told as the next step begins
            return ()


def _written_alone(parts: Sequence[StepPart]) -> StepPart | None:
    """Return the part of a step that is one answer's next token alone, neither of its prompt nor
    computed again; None where there is no such part."""
    if len(parts) != 1 or parts[0].answer.paged.is_reading:
        return None
    (part,) = parts
    return part if part.count == part.outputs == 1 else None


def drafted_batch(runner: Runner, options: StartServing) -> tuple[Batch, ServedDrafts]:
    """Return the batch of a runner with room for clients, and what makes their drafts."""
    batch, chosen = Batch(runner, options), speculate_of(runner, options)
    if chosen == "off":
        return batch, ServedDrafts()
    sources: list[DraftSource] = [LookupSource()]
    paged = PagedSlice(batch) if chosen == "slice" else None
    if paged is not None:
        sources.append(SliceDraftSource(paged))
    if options.by_draft_model and runner.draft is not None:
        runner.draft.source.most_read = CHUNK
        sources.append(runner.draft.source)
    policy = LongestDrafts() if chosen == "lookup" else None
    return batch, ServedDrafts(Speculation(sources, policy, may_branch=False), paged)
