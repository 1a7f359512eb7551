"""The policy of draft lengths: as many tokens as bring the most tokens a second, down to none."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from llm_lite.core.generation.speculation.costs import PassCosts
from llm_lite.core.generation.speculation.draft import LOOKUP

_SHARE = 0.005  # of the time that answers take, which drafts may lose
_GRACE = 4  # single passes that a source may lose before it is known
_DECAY = 0.95  # of earlier outcomes, with every draft that is scored
_PRIOR_TRIALS = 2.0

# Shares of right tokens before any was scored, by the binary digits of the evidence: the longer the
# match, the surer. Evidence of 2^7 tokens and more counts alike; 0 is that of computed drafts.
_PRIORS = (0.7, 0.5, 0.5, 0.65, 0.8, 0.9, 0.95, 0.95)

# What drafts must promise before they are tried: guesses about costs and acceptance are rough.
_WORTH = 1.05
_TRIAL = 3  # tokens of a computed draft that is only to show whether drafts pay by now


class DraftLedger(Struct):
    """The account of a source whose drafts take time: seconds that they lost, in net, and seconds
    of all passes meanwhile. Earlier savings pay for nothing later."""

    lost: float = 0.0
    spent: float = 0.0
    is_trial: bool = False  # the last draft was one that seemed not to pay

    def note(self, lost: float, reading: float) -> None:
        """Record by how many seconds a draft and the pass that verified it took longer (below 0:
        less) than a pass for each token that they brought. `reading` of it went into text that the
        source had not read: later drafts are the cheaper for it, so that it only counts where they
        seem not to pay."""
        self.lost = max(0.0, self.lost + lost - (0.0 if self.is_trial else reading))

    def may_draft(self, single: float) -> bool:
        """Return True if drafts that seem to pay may be made; `single` is T(1), seconds."""
        return self.lost <= _SHARE * self.spent + _GRACE * single

    def may_try(self, cost: float) -> bool:
        """Return True if drafts that seemed not to pay may be tried again, at `cost` seconds."""
        return self.lost + cost <= _SHARE * self.spent


class _Record(Struct):
    """The outcomes of drafts with alike evidence: how many tokens were scored, and how many of
    these were right."""

    trials: float
    accepted: float

    @property
    def rate(self) -> float:
        return self.accepted / self.trials


class DraftPolicy(Struct):
    """Chooses the length of drafts from what passes cost and from how drafts did so far.

    The first tokens of drafts that are not tried are scored too, by the token that comes: a source
    that guesses badly, or has got better, is known without a cost.
    """

    costs: PassCosts = field(default_factory=PassCosts)
    _records: dict[tuple[str, int], _Record] = field(default_factory=dict)
    _ledgers: dict[str, DraftLedger] = field(default_factory=dict)  # of sources that take time

    def length(self, evidence: int, most: int, source: str = LOOKUP, price: float = 0.0) -> int:
        """Return how many tokens to draft, 0..most: those with the largest expected number of
        tokens a second.

        With each token right with probability a, a pass over 1 + n brings 1 + a + ... + a^n tokens
        (Leviathan et al. 2023, equation 1) in T(1 + n), and in the seconds that drafting n takes,
        `price` each.
        """
        if not self.costs.is_known:
            return 0
        rate, share = self._record(source, evidence).rate, price / self.costs.seconds(1)
        best = _best_length(rate, most, self.costs.ratio, share)
        if price:
            return self._affordable(source, best, most, price)
        if not best and _best_length(rate, most, self.costs.guess, share):
            self.costs.doubt()
        return best

    def note_pass(self, tokens: int, seconds: float) -> None:
        """Record that a pass over `tokens` tokens took `seconds`."""
        self.costs.note(tokens, seconds)
        for ledger in self._ledgers.values():
            ledger.spent += seconds

    def record_outcome(
        self,
        evidence: int,
        accepted: int,
        rejected: bool,
        source: str = LOOKUP,
        lost: float = 0.0,
        reading: float = 0.0,
    ) -> None:
        """Record that the first `accepted` tokens of a draft came, and with `rejected` that the
        next one did not. It lost `lost` seconds (below 0: saved), if drafting takes time; `reading`
        of them went into text that the source had not read yet."""
        record = self._record(source, evidence)
        record.trials = _DECAY * record.trials + accepted + rejected
        record.accepted = _DECAY * record.accepted + accepted
        if source in self._ledgers:
            self._ledgers[source].note(lost, reading)

    def acceptance(self, evidence: int, source: str = LOOKUP) -> float:
        """Return the share of tokens of such drafts that come, as far as is known."""
        return self._record(source, evidence).rate

    def _affordable(self, source: str, best: int, most: int, price: float) -> int:
        """Limit drafts that take time: where they lost too much they end, whatever they promise;
        where they promise nothing they are tried so seldom that little is lost."""
        ledger = self._ledgers.setdefault(source, DraftLedger())
        ledger.is_trial = not best
        if best:
            return best if ledger.may_draft(self.costs.seconds(1)) else 0
        trial = min(_TRIAL, most)
        cost = trial * price + self.costs.seconds(1 + trial) - self.costs.seconds(1)
        return trial if ledger.may_try(cost) else 0

    def _record(self, source: str, evidence: int) -> _Record:
        kind = source, min(evidence.bit_length(), len(_PRIORS) - 1)
        if kind not in self._records:
            self._records[kind] = _Record(_PRIOR_TRIALS, _PRIOR_TRIALS * _PRIORS[kind[1]])
        return self._records[kind]


def _best_length(rate: float, most: int, ratio: Callable[[int], float], price: float) -> int:
    """Return the best length of a draft. `price` of a drafted token is a multiple of T(1), as
    `ratio` is."""
    best, best_speed, tokens, chance = 0, _WORTH, 1.0, 1.0
    for count in range(1, most + 1):
        chance *= rate
        tokens += chance
        speed = tokens / (ratio(1 + count) + count * price)
        if speed > best_speed:
            best, best_speed = count, speed
    return best
