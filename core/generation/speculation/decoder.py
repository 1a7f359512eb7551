"""The tokens of one answer, decoded: several in a pass over the weights where drafts were right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.records import dataclass


class DraftSession(Protocol):
    """A session as drafts need it; see `CacheSteps`."""

    speculation: Speculation | None
    step_seconds: float

    @property
    def tokens_ahead(self) -> tuple[int, ...]: ...

    @property
    def most_drafted(self) -> int: ...

    def decode(
        self, token: int, should_stop: StopCheck | None = None, draft: Sequence[int] = ()
    ) -> NDArray[np.float32]: ...


@dataclass(slots=True)
class DraftCounts:
    """Of one answer; the passes of its prompt are not among them."""

    passes: int = 0  # over the weights
    drafted: int = 0  # tokens
    accepted: int = 0  # of these, the ones that came
    drafted_passes: int = 0  # of the passes, those that verified drafts
    saved_seconds: float = 0.0  # by drafts, against a pass a token; below 0: they cost time

    def note_pass(self, drafted: int, seconds: float, single: float) -> None:
        """A pass over 1 + drafted tokens took so long, where one over a single token takes
        `single` seconds."""
        self.passes += 1
        if drafted:
            self.drafted += drafted
            self.drafted_passes += 1
            self.saved_seconds -= seconds - single

    def note_accepted(self, single: float) -> None:
        """A token needed no pass of its own."""
        self.accepted += 1
        self.saved_seconds += single


class AnswerDecoder:
    """Decodes with drafts where the session has a speculation, and token by token where not.

    The logits are those of decoding token by token, to the last bit, and so are the draws made of
    them, as one random number belongs to each position: text, seeds, penalties and grammars are
    the same with and without drafts. That is why there is no rejection sampling here. Drafts that
    are looked up are certain proposals: accepting one where the draw of its own position gives the
    same token has the probability that rejection sampling would accept it with (Leviathan et al.
    2023, section 2.3, with q = 1 for one token), and what is drawn else has the right distribution.
    """

    def __init__(
        self,
        session: DraftSession,
        end_tokens: Collection[int] = (),
        counts: DraftCounts | None = None,
    ) -> None:
        """Drafts stop before `end_tokens`: nothing is decoded behind these. `counts` go on."""
        self.counts = counts or DraftCounts()
        self._session, self._speculation = session, session.speculation
        self._ends = end_tokens
        self._heard = 0  # tokens of the text that the sources know
        self._proposal, self._tried = NO_DRAFT, 0

    def decode(
        self, text: Sequence[int], left: int, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Append the last token of the text, prompt included; logits float32 [V] of what follows.

        At most `left` tokens are going to be chosen.
        """
        session = self._session
        if session.tokens_ahead[:1] == (text[-1],):
            return session.decode(text[-1], should_stop)
        draft = self._draft(text, left)
        logits = session.decode(text[-1], should_stop, draft)
        if self._speculation is not None:
            self._speculation.policy.costs.note(1 + len(draft), session.step_seconds)
        self.counts.note_pass(len(draft), session.step_seconds, self._single_seconds())
        return logits

    def outcome(self, token: int) -> tuple[bool, tuple[int, ...]]:
        """Whether the token that was chosen had been drafted for its place, and what had been
        drafted for its place and behind where it was not this."""
        ahead = self._session.tokens_ahead
        accepted = ahead[:1] == (token,)
        if accepted:
            self.counts.note_accepted(self._single_seconds())
        return accepted, () if accepted else ahead

    def _single_seconds(self) -> float:
        return self._speculation.policy.costs.seconds(1) if self._speculation else 0.0

    def _draft(self, text: Sequence[int], left: int) -> tuple[int, ...]:
        most = min(self._session.most_drafted, left - 1)
        if self._speculation is None:
            return ()
        self._judge(text)
        self._tell(text)
        self._proposal = NO_DRAFT if most < 1 else self._speculation.propose(most)
        usable = tuple(takewhile(lambda token: token not in self._ends, self._proposal.tokens))
        self._proposal = Draft(usable, self._proposal.evidence)
        self._tried = 0
        if usable:
            evidence = self._proposal.evidence
            self._tried = self._speculation.policy.length(evidence, len(usable))
        return usable[: self._tried]

    def _tell(self, text: Sequence[int]) -> None:
        """The sources know all of the text."""
        assert self._speculation is not None
        if self._heard == 0:
            self._speculation.begin(text)
        else:
            for token in text[self._heard :]:
                self._speculation.add(token)
        self._heard = len(text)

    def _judge(self, text: Sequence[int]) -> None:
        """How the last proposal did; of one that was not tried, its first token."""
        assert self._speculation is not None
        expected = self._proposal.tokens[: max(1, self._tried)]
        if not expected or self._heard == 0:
            return
        came = text[self._heard :]
        pairs = zip(expected, came, strict=False)
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        rejected = right < min(len(expected), len(came))
        self._speculation.policy.judge(self._proposal.evidence, right, rejected)
