"""The drafts of one answer: what its steps try beside its next token, how often that is right, and
the time that it saves."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct, field

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.messages import GenerationStats, SourceDrafts
from llm_lite.core.records import replace


class AnswerDrafts(Struct):
    """The drafts of one answer, of a chat or of a client; the counts leave the passes of its prompt
    out.

    Logits are those of decoding token by token, to the last bit, and so are the draws made of
    them, as one random number belongs to each position: text, seeds, penalties and grammars are
    the same with and without drafts. That is why there is no rejection sampling here. Drafts are
    certain proposals, whether they were looked up or are the likeliest tokens of a smaller model:
    accepting one where the draw of its own position gives the same token has the probability that
    rejection sampling would accept it with (Leviathan et al. 2023, section 2.3, with q = 1 for one
    token), and what is drawn else has the right distribution.
    """

    ends: Collection[int] = ()  # tokens before which drafts stop: nothing is decoded behind these
    # Of the model on its executor, which drafts one answer after the other; None: a token a pass.
    speculation: Speculation | None = None
    passes: int = 0  # over the weights
    drafted: int = 0  # tokens
    accepted: int = 0  # of these, the ones that came
    drafted_passes: int = 0  # of the passes, those that verified drafts
    saved_seconds: float = 0.0  # by drafts, against a pass a token; below 0: they cost time
    # By the source of drafts: tokens of it that were verified, and accepted.
    by_source: dict[str, tuple[int, int]] = field(default_factory=dict)

    def propose(
        self, text: list[int], most: int, should_stop: StopCheck | None = None
    ) -> tuple[int, ...]:
        """Return at most `most` tokens to verify behind the text, prompt included, which is the
        same list each time and grows; none while sources still read it. CancelledError when
        stopped."""
        if self.speculation is None or not self.speculation.update(text):
            return ()
        return self.speculation.propose(most, self.ends, should_stop).tokens

    def note_step(self, drafted: int, seconds: float, *, is_alone: bool = True) -> None:
        """Record that a step with the next token and `drafted` ones took `seconds`; unless
        `is_alone`, it had tokens of others too, and says nothing of what drafts cost."""
        self.passes += 1
        speculation = self.speculation
        if speculation is None:
            return
        if is_alone:
            speculation.note_pass(1 + drafted, seconds)
        self.saved_seconds -= speculation.drafting_seconds
        speculation.drafting_seconds = 0.0  # counted once
        if drafted:
            self.drafted += drafted
            self.drafted_passes += 1
            self.saved_seconds -= seconds - speculation.policy.costs.seconds(1)
            before, accepted = self.by_source.get(speculation.drafted_by, (0, 0))
            self.by_source[speculation.drafted_by] = before + drafted, accepted

    def note_accepted(self) -> None:
        """Record a token that needed no pass of its own."""
        assert self.speculation is not None, "a draft of no source"
        self.accepted += 1
        self.saved_seconds += self.speculation.policy.costs.seconds(1)
        drafted, before = self.by_source.get(self.speculation.drafted_by, (0, 0))
        self.by_source[self.speculation.drafted_by] = drafted, before + 1

    def with_draft_counts(self, stats: GenerationStats) -> GenerationStats:
        """Return an answer's statistics with these counts filled in."""
        return replace(
            stats,
            passes=self.passes,
            drafted=self.drafted,
            accepted=self.accepted,
            drafted_passes=self.drafted_passes,
            drafted_by=tuple(SourceDrafts(name, *n) for name, n in self.by_source.items()),
            saved_ms=1e3 * self.saved_seconds,
        )
