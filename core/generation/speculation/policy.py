"""How many tokens are drafted: as many as bring the most tokens a second, down to none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from llm_lite.core.generation.speculation.costs import PassCosts
from llm_lite.core.records import dataclass

_DECAY = 0.95  # of what was seen, with every draft that is judged
_PRIOR_TRIALS = 2.0
# Shares of right tokens before any was judged, by the binary digits of the evidence: the longer the
# match, the surer. Evidence of 2^7 tokens and more counts alike.
_PRIORS = (0.5, 0.5, 0.5, 0.65, 0.8, 0.9, 0.95, 0.95)
# What drafts must promise before they are tried: guesses about costs and acceptance are rough.
_WORTH = 1.05


@dataclass(slots=True)
class _Record:
    """Of drafts with alike evidence: tokens that were judged, and how many of these were right."""

    judged: float
    accepted: float

    @property
    def rate(self) -> float:
        return self.accepted / self.judged


@dataclass(slots=True)
class DraftPolicy:
    """Chooses the length of drafts from what passes cost and from how drafts did so far.

    The first tokens of drafts that are not tried are judged too, by the token that comes: a source
    that guesses badly, or has got better, is known without a cost.
    """

    costs: PassCosts = field(default_factory=PassCosts)
    _records: dict[int, _Record] = field(default_factory=dict)

    def length(self, evidence: int, most: int) -> int:
        """Tokens to draft, 0..most: those with the largest expected number of tokens a second.

        With each token right with probability a, a pass over 1 + n brings 1 + a + ... + a^n tokens
        (Leviathan et al. 2023, equation 1) in T(1 + n).
        """
        if not self.costs.is_known:
            return 0
        rate = self._record(evidence).rate
        best = _best_length(rate, most, self.costs.ratio)
        if not best and _best_length(rate, most, self.costs.guess):
            self.costs.doubt()
        return best

    def judge(self, evidence: int, accepted: int, rejected: bool) -> None:
        """Of a draft, its first `accepted` tokens came; with `rejected`, the next one did not."""
        record = self._record(evidence)
        record.judged = _DECAY * record.judged + accepted + rejected
        record.accepted = _DECAY * record.accepted + accepted

    def acceptance(self, evidence: int) -> float:
        """The share of tokens of such drafts that come, as far as is known."""
        return self._record(evidence).rate

    def _record(self, evidence: int) -> _Record:
        kind = min(evidence.bit_length(), len(_PRIORS) - 1)
        if kind not in self._records:
            self._records[kind] = _Record(_PRIOR_TRIALS, _PRIOR_TRIALS * _PRIORS[kind])
        return self._records[kind]


def _best_length(rate: float, most: int, ratio: Callable[[int], float]) -> int:
    best, best_speed, tokens, chance = 0, _WORTH, 1.0, 1.0
    for count in range(1, most + 1):
        chance *= rate
        tokens += chance
        speed = tokens / ratio(1 + count)
        if speed > best_speed:
            best, best_speed = count, speed
    return best
