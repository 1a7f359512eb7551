"""The tokens of one answer, decoded: several in a pass over the weights where drafts were right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import NO_BRANCH, NO_DRAFT, Branch, Draft
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.messages import GenerationStats, SourceDrafts
from llm_lite.core.records import replace


class DraftSession(Protocol):
    """The interface of a session to drafts; see `CacheSteps`."""

    speculation: Speculation | None
    step_seconds: float
    had_company: bool

    @property
    def tokens_ahead(self) -> tuple[int, ...]: ...

    def is_ahead(self, token: int) -> bool: ...

    @property
    def most_drafted(self) -> int: ...

    def decode(
        self,
        token: int,
        should_stop: StopCheck | None = None,
        draft: Sequence[int] = (),
        branch: Branch = NO_BRANCH,
    ) -> NDArray[np.float32]: ...


class DraftCounts(Struct):
    """The draft statistics of one answer, without the passes of its prompt."""

    passes: int = 0  # over the weights
    drafted: int = 0  # tokens
    accepted: int = 0  # of these, the ones that came
    drafted_passes: int = 0  # of the passes, those that verified drafts
    saved_seconds: float = 0.0  # by drafts, against a pass a token; below 0: they cost time
    # By the source of drafts: tokens of it that were verified, and accepted.
    by_source: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note_pass(
        self, drafted: int, seconds: float, single: float, source: str = "", drafting: float = 0.0
    ) -> None:
        """Record that a pass over 1 + drafted tokens took `seconds`, where one over a single token
        takes `single`; drafting took `drafting` seconds before."""
        self.passes += 1
        self.saved_seconds -= drafting
        if drafted:
            self.drafted += drafted
            self.drafted_passes += 1
            self.saved_seconds -= seconds - single
            before, accepted = self.by_source.get(source, (0, 0))
            self.by_source[source] = before + drafted, accepted

    def note_accepted(self, single: float, source: str = "") -> None:
        """Record a token that needed no pass of its own."""
        self.accepted += 1
        self.saved_seconds += single
        drafted, before = self.by_source.get(source, (0, 0))
        self.by_source[source] = drafted, before + 1

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


class AnswerDecoder:
    """Decodes with drafts where the session has a speculation, and token by token where not.

    The logits are those of decoding token by token, to the last bit, and so are the draws made of
    them, as one random number belongs to each position: text, seeds, penalties and grammars are
    the same with and without drafts. That is why there is no rejection sampling here. Drafts are
    certain proposals, whether they were looked up or are the likeliest tokens of a smaller model:
    accepting one where the draw of its own position gives the same token has the probability that
    rejection sampling would accept it with (Leviathan et al. 2023, section 2.3, with q = 1 for one
    token), and what is drawn else has the right distribution.
    """

    def __init__(
        self,
        session: DraftSession,
        end_tokens: Collection[int] = (),
        counts: DraftCounts | None = None,
    ) -> None:
        """Decode with drafts that stop before `end_tokens`: nothing is decoded behind these.
        `counts` are continued."""
        self.counts = counts or DraftCounts()
        self._session, self._speculation = session, session.speculation
        self._ends = end_tokens
        self._fed = 0  # tokens of the text that the sources know

    def decode(
        self, text: Sequence[int], left: int, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Append the last token of the text, prompt included; logits float32 [V] of what follows.

        At most `left` tokens are going to be chosen.
        """
        session = self._session
        if session.is_ahead(text[-1]):
            return session.decode(text[-1], should_stop)
        draft = self._draft(text, left, should_stop)
        logits = session.decode(text[-1], should_stop, draft.tokens, draft.branch)
        drafted = len(draft.tokens) + len(draft.branch.tokens)
        drafting, source = 0.0, ""
        if self._speculation is not None:
            if not session.had_company:  # else it took longer than these tokens do
                self._speculation.note_pass(1 + drafted, session.step_seconds)
            drafting, source = self._speculation.drafting_seconds, self._speculation.drafted_by
        single = self._single_seconds()
        self.counts.note_pass(drafted, session.step_seconds, single, source, drafting)
        return logits

    def outcome(self, token: int) -> tuple[bool, tuple[int, ...]]:
        """Return True if the chosen token had been drafted for its place, else False and what had
        been drafted from this place on."""
        accepted = self._session.is_ahead(token)
        if accepted:
            source = self._speculation.drafted_by if self._speculation else ""
            self.counts.note_accepted(self._single_seconds(), source)
        return accepted, () if accepted else self._session.tokens_ahead

    def _single_seconds(self) -> float:
        return self._speculation.policy.costs.seconds(1) if self._speculation else 0.0

    def _draft(self, text: Sequence[int], left: int, should_stop: StopCheck | None) -> Draft:
        if self._speculation is None:
            return NO_DRAFT
        if self._fed:
            self._speculation.record_outcome(text[self._fed :])
        self._feed_sources(text)
        most = min(self._session.most_drafted, left - 1)
        return self._speculation.propose(most, self._ends, should_stop)

    def _feed_sources(self, text: Sequence[int]) -> None:
        """Feed the sources what they do not know of the text."""
        assert self._speculation is not None
        if self._fed == 0:
            self._speculation.begin(text)
        else:
            for token in text[self._fed :]:
                self._speculation.add(token)
        self._fed = len(text)
