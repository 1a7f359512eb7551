"""Speculative decoding: sources of drafts, and the policy that decides how long a draft may be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from time import perf_counter
from typing import Protocol

from msgspec import Struct

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.costs import PassCosts, PassTiming
from llm_lite.core.generation.speculation.draft import LOOKUP, NO_DRAFT, Draft, DraftSource
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.ngram_learning import LearnedDrafts
from llm_lite.core.generation.speculation.policy import DraftPolicy
from llm_lite.core.generation.speculation.slice_source import BLOCK, SliceDraftSource, SlicedSession
from llm_lite.core.messages import Speculate
from llm_lite.core.records import replace

_MOST_COMPUTED = 8  # tokens that a source which takes time drafts where nobody weighs what it costs
PIECE = 2048  # tokens of a text that sources hear of between two steps: some milliseconds
_PLAUSIBLE = 2  # times its price that a draft may take; more is taken for reading


class LengthPolicy(Protocol):
    """The interface of a policy: it decides how many tokens are drafted, and records outcomes."""

    costs: PassCosts

    def length(self, evidence: int, most: int, source: str = ..., price: float = ...) -> int: ...

    def note_pass(self, tokens: int, seconds: float) -> None: ...

    def record_outcome(
        self,
        evidence: int,
        accepted: int,
        rejected: bool,
        source: str = ...,
        lost: float = ...,
        reading: float = ...,
    ) -> None: ...


class LongestDrafts(DraftPolicy):
    """Drafts all that may be drafted, whether it pays or not; the very first pass drafts nothing,
    so that it is known what others gain."""

    def length(self, evidence: int, most: int, source: str = LOOKUP, price: float = 0.0) -> int:
        if not self.costs.is_known:
            return 0
        return min(most, _MOST_COMPUTED) if price else most


class Proposal(Struct):
    """The draft of one source, whose first `tried` tokens are verified."""

    source: str
    draft: Draft
    tried: int
    seconds: float  # that it took to draft; 0 where tokens are looked up
    reading: float  # of these, what went into text that the source had not read yet

    @property
    def verified(self) -> Draft:
        """Return the part of the draft that a pass verifies."""
        return Draft(self.draft.tokens[: self.tried], self.draft.evidence)


class Speculation:
    """The sources of drafts of a model on an executor. What was learned stays from one answer to
    the next."""

    def __init__(
        self, sources: Sequence[DraftSource] = (), policy: LengthPolicy | None = None
    ) -> None:
        """Make a speculation, whose sources are tried in this order."""
        self.sources = tuple(sources) or (LookupSource(),)
        self.policy = policy or DraftPolicy()
        self.timing: PassTiming | None = None  # to be done while the engine is idle
        self.learned: LearnedDrafts | None = None  # it learns answers; one source drafts from it
        self.drafting_seconds = 0.0  # that the last call of `propose` took to compute drafts
        self.drafted_by = ""  # the source of what the last call of `propose` returned
        self._proposals: list[Proposal] = []  # of that call
        self._pass_seconds = 0.0  # of the pass behind it
        self._text: list[int] = []  # that the sources follow
        self._fed = 0  # leading tokens of it that they were given

    def draft_what_was_learned(self, learned: LearnedDrafts) -> None:
        """Add the source of learned drafts behind the first one: it is asked where the text repeats
        nothing, before anything is computed."""
        self.learned = learned
        self.sources = (self.sources[0], learned.source, *self.sources[1:])

    def update(self, text: list[int]) -> bool:
        """Give the sources the new tokens of a text, which is the same list as long as it only
        grows; return whether they have all of it now. A long one is given in pieces, as others wait
        meanwhile."""
        if text is self._text:
            new = text[self._fed : self._fed + PIECE]
            self.record_outcome(new)
            for token in new:
                self.add(token)
            self._fed += len(new)
        else:
            is_longer = text[: self._fed] == self._text[: self._fed]
            fed = min(max(self._fed if is_longer else 0, PIECE), len(text))
            self.begin(text[:fed])
            self._text, self._fed = text, fed
        return self._fed == len(text)

    def begin(self, tokens: Sequence[int]) -> None:
        """Begin another text: a prompt, and the answer so far."""
        self._proposals, self._text, self._fed = [], [], 0
        for source in self.sources:
            source.begin(tokens)

    def add(self, token: int) -> None:
        for source in self.sources:
            source.add(token)

    def propose(
        self, most: int, ends: Collection[int] = (), should_stop: StopCheck | None = None
    ) -> Draft:
        """Return at most `most` tokens to verify, of the first source whose draft pays; they stop
        before `ends`. CancelledError when stopped."""
        self._proposals, self.drafting_seconds, self.drafted_by = [], 0.0, ""
        for source in self.sources:
            proposal = self._proposal(source, most, ends, should_stop) if most > 0 else None
            if proposal is None:
                continue
            self._proposals.append(proposal)
            self.drafting_seconds += proposal.seconds
            if proposal.tried:
                self.drafted_by = proposal.source
                return proposal.verified
        return NO_DRAFT

    def note_pass(self, tokens: int, seconds: float) -> None:
        """Record the tokens and the seconds of the pass behind `propose`."""
        self._pass_seconds = seconds
        self.policy.note_pass(tokens, seconds)

    def record_outcome(self, tokens: Sequence[int]) -> None:
        """Record which tokens followed the text of the last proposals; of those that were not
        tried, the first token is scored."""
        proposals, self._proposals = self._proposals, []
        for proposal in proposals if tokens else ():
            self._record(proposal, tokens)

    def _proposal(
        self,
        source: DraftSource,
        most: int,
        ends: Collection[int],
        should_stop: StopCheck | None,
    ) -> Proposal | None:
        """Draft by one source. A source that looks up drafts first and is scored in any case; one
        that computes drafts only what pays."""
        price = source.seconds_per_token
        length = self.policy.length(0, most, source.name, price) if price else most
        if not length:
            return None
        began = perf_counter()
        draft = source.draft(length, should_stop)
        seconds = perf_counter() - began if price else 0.0
        before = tuple(takewhile(lambda token: token not in ends, draft.tokens))
        draft = replace(draft, tokens=before)
        tried = len(draft.tokens)
        if tried and not price:
            tried = self.policy.length(draft.evidence, tried, source.name)
        drafting = 0.0 if draft.is_reading else _PLAUSIBLE * (1 + length) * price
        reading = max(0.0, seconds - drafting)
        return Proposal(source.name, draft, tried, seconds, reading)

    def _record(self, proposal: Proposal, tokens: Sequence[int]) -> None:
        draft, policy = proposal.draft, self.policy
        expected = draft.tokens[: max(1, proposal.tried)]
        right = _alike(expected, tokens)
        rejected = right < min(len(expected), len(tokens))
        lost = proposal.seconds
        if proposal.tried:
            lost += self._pass_seconds - (1 + right) * policy.costs.seconds(1)
        if expected or proposal.seconds:
            policy.record_outcome(
                draft.evidence, right, rejected, proposal.source, lost, proposal.reading
            )


class SessionWithSlice(SlicedSession, Protocol):
    """The interface of a session whose program may have a slice."""

    @property
    def has_slice(self) -> bool: ...


def _alike(expected: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many first tokens are the same."""
    pairs = zip(expected, tokens, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def speculation_of(
    speculate: Speculate, session: SessionWithSlice | None = None, *, by_block: bool = False
) -> Speculation | None:
    """Return the speculation that a person chose; None if nothing is drafted. `session`: of the
    program, whose slice may draft: with `auto` only if it is a block that was trained to,
    `by_block`."""
    match speculate:
        case "off":
            return None
        case "auto":
            sources: list[DraftSource] = [LookupSource()]
            if by_block and session is not None and session.has_slice:
                sources.append(SliceDraftSource(session, BLOCK))
            return _timed(Speculation(sources))
        case "slice":
            assert session is not None, "drafts by a slice of no model"
            return _timed(Speculation((LookupSource(), SliceDraftSource(session))))
        case "lookup":
            return Speculation(policy=LongestDrafts())


def _timed(speculation: Speculation) -> Speculation:
    """Have the cost of its passes measured while the engine is idle."""
    speculation.timing = PassTiming(speculation.policy.costs)
    return speculation
