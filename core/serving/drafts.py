"""Drafts of an answer that runs alone: tokens that its text, or a smaller model, says come next,
verified in its step.

Each drafted token is a segment of its own behind the answer's next one, in the same pages of the
cache. A segment of one token gets the bits that it has in a step by itself, whatever else is in
the step, so that answers are the same with drafts and without. Where several answers share steps
nothing is drafted: their tokens take the places that drafts would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llm_lite.core.generation.speculation.draft import DraftSource
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.loading import backends
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import StartServing
from llm_lite.core.records import dataclass
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.scheduler import StepPart

MOST_IN_A_STEP = 16  # tokens of one answer: its next one, and drafts


@dataclass(slots=True)
class ServedDrafts:
    """Of one batch, on the engine's thread. What was learned stays from one answer to the next."""

    speculation: Speculation | None  # None: nothing is drafted
    _answer: ServedAnswer | None = None  # whose text the sources know
    _heard: int = 0  # tokens of it

    @property
    def most_segments(self) -> int:
        """Of a step, for one answer; 0: nothing is drafted."""
        return MOST_IN_A_STEP if self.speculation else 0

    def extended(self, parts: list[StepPart], places: int, pool: PagePool) -> list[StepPart]:
        """The parts of a step that has places for so many segments: with drafts, if it is one
        answer's next token alone."""
        if self.speculation is None or len(parts) != 1:
            return parts
        (part,) = parts
        if part.answer.paged.is_reading or part.count != 1:
            return parts
        answer, paged = part.answer, part.answer.paged
        self._follow(answer)
        most = min(places, MOST_IN_A_STEP, answer.left) - 1
        drafted = self.speculation.propose(most, answer.end_tokens).tokens
        while drafted and not paged.extend(pool, paged.computed + 1 + len(drafted)):
            drafted = drafted[:-1]
        return [replace(part, drafted=drafted)]

    def note_step(self, parts: Sequence[StepPart], seconds: float) -> None:
        """A step of these parts took so long."""
        if self.speculation is not None and len(parts) == 1 and parts[0].answer is self._answer:
            self.speculation.note_pass(1 + len(parts[0].drafted), seconds)

    def count(self, part: StepPart, accepted: int, seconds: float) -> None:
        """Of the drafts of this part so many came; the step took so long."""
        counts, drafted = part.answer.counts, len(part.drafted)
        if part.answer.new_tokens == 1 + accepted:  # the first one follows the prompt
            return
        single, source, drafting = 0.0, "", 0.0
        if self.speculation is not None and part.answer is self._answer:
            single = self.speculation.policy.costs.seconds(1)
            source, drafting = self.speculation.drafted_by, self.speculation.drafting_seconds
            self.speculation.drafting_seconds = 0.0  # counted once, whatever the next step has
        counts.note_pass(drafted, seconds, single, source, drafting)
        for _ in range(accepted):
            counts.note_accepted(single, source)

    def _follow(self, answer: ServedAnswer) -> None:
        """The sources know all of the answer's text, and how the last drafts did."""
        assert self.speculation is not None
        text = answer.paged.tokens
        if answer is not self._answer:
            self.speculation.begin(text)
        else:
            self.speculation.judge(text[self._heard :])
            for token in text[self._heard :]:
                self.speculation.add(token)
        self._answer, self._heard = answer, len(text)


def drafts_of(runner: Runner, options: StartServing) -> ServedDrafts:
    """As a person chose for a server; `auto` drafts nothing on software devices."""
    if not backends.drafts(runner.choice, replace(runner.options, speculate=options.speculate)):
        return ServedDrafts(None)
    sources: list[DraftSource] = [LookupSource()]
    if options.by_draft_model and runner.draft is not None:
        sources.append(runner.draft.source)
    policy = LongestDrafts() if options.speculate == "lookup" else None
    return ServedDrafts(Speculation(sources, policy, may_branch=False))
