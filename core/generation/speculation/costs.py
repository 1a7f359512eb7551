"""The cost of a pass over the weights, by the number of tokens in it: T(n)."""

from __future__ import annotations

from collections.abc import Mapping

_SHARE = 0.2  # of a new measurement in what is known
_DOUBT = 0.05  # of the way back to the guess, each time that a measurement forbids drafts
_GUESS = 0.2  # of a single token's pass: what one more token is guessed to add


class PassCosts:
    """Seconds of a pass over n tokens, learned from passes as they run.

    T(n) is a straight line between the sizes that were measured (T(n) = W + n C: weights are read
    once, each token is computed). Before anything but single tokens was measured, C is guessed.
    Passes get slower as the context grows: sizes other than 1 are kept as multiples of T(1), which
    lie between 1 and n.
    """

    def __init__(self) -> None:
        self._single = 0.0  # T(1), seconds; 0: not known
        self._ratios: dict[int, float] = {}  # by n > 1: T(n) / T(1)

    def note(self, tokens: int, seconds: float) -> None:
        """Record that a pass over `tokens` tokens took `seconds`."""
        if seconds <= 0:
            return
        if tokens == 1:
            self._single = _mixed(self._single, seconds)
        elif self._single:
            ratio = min(max(seconds / self._single, 1.0), float(tokens))
            self._ratios[tokens] = _mixed(self._ratios.get(tokens, 0.0), ratio)

    @property
    def is_known(self) -> bool:
        """Return True once a pass over a single token was measured."""
        return self._single > 0

    def ratio(self, tokens: int) -> float:
        """Return T(tokens) / T(1)."""
        if tokens <= 1:
            return 1.0
        below = max((n for n in self._ratios if n <= tokens), default=1)
        above = min((n for n in self._ratios if n >= tokens), default=0)
        low = self._ratios.get(below, 1.0)
        if above == below:
            return low
        if above:
            share = (tokens - below) / (above - below)
            return low + share * (self._ratios[above] - low)
        slope = (low - 1) / (below - 1) if below > 1 else _GUESS
        return low + (tokens - below) * max(slope, 0.0)

    @staticmethod
    def guess(tokens: int) -> float:
        """Return a guess of T(tokens) / T(1), used until it is measured."""
        return 1 + _GUESS * max(0, tokens - 1)

    def doubt(self) -> None:
        """Move costs that were measured above the guess closer to it: they may have been measured
        while the machine was busy, and are not measured again unless they are tried."""
        for tokens, ratio in self._ratios.items():
            if ratio > self.guess(tokens):
                self._ratios[tokens] = ratio + _DOUBT * (self.guess(tokens) - ratio)

    def seconds(self, tokens: int) -> float:
        """Return T(tokens) in seconds; 0 while T(1) is not known."""
        return self._single * self.ratio(tokens)

    def measured(self) -> Mapping[int, float]:
        """Return seconds by the numbers of tokens that were measured."""
        if not self._single:
            return {}
        sizes = sorted(self._ratios)
        return {1: self._single} | {n: self._single * self._ratios[n] for n in sizes}


def _mixed(known: float, new: float) -> float:
    """Move an estimate towards a new value; a pass that was interrupted counts twice at most."""
    return known + _SHARE * (min(new, 2 * known) - known) if known else new
