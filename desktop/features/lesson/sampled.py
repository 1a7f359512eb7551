"""Temperature and top-p on the real distribution of a trace, and a token drawn from what is left.

As `core.generation.sampling` does it, without penalties: probabilities at the temperature, of
which the likeliest stay until they sum to top-p; then one is drawn.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import TEMPERATURES, Distribution

_GOLDEN = 0.6180339887498949  # steps of a sequence that spreads evenly over 0..1


class Sampled(Struct, frozen=True):
    """`shares`: probabilities of the distribution's `top` at the temperature; `kept`: how many of
    them top-p leaves; `complete`: whether these are all that it leaves; `whole`: the sum of the
    probabilities of all that it leaves, whether they are among `top` or not."""

    shares: tuple[float, ...]
    kept: int
    complete: bool
    whole: float
    draw: float  # 0..1
    chosen: int | None  # which of `top`; None: a rarer token

    def kept_share(self, index: int) -> float:
        """Among those that are kept."""
        return self.shares[index] / self.whole


def token_shares(distribution: Distribution, temperature: float) -> tuple[float, ...]:
    """Probabilities of `top` at a temperature of TEMPERATURES; what they lack to 1 is the tail's.
    ValueError at another temperature."""
    largest = distribution.top[0].logit
    weights = [math.exp((token.logit - largest) / temperature) for token in distribution.top]
    whole = math.fsum(weights) + distribution.tails[TEMPERATURES.index(temperature)]
    return tuple(weight / whole for weight in weights)


@lru_cache(maxsize=32)
def sampled(distribution: Distribution, temperature: float, top_p: float, draws: int) -> Sampled:
    """The token that the draw number `draws` gives."""
    shares = token_shares(distribution, temperature)
    sums = list(accumulate(shares))
    kept = 1 + sum(total < top_p for total in sums[:-1])
    complete = sums[kept - 1] >= top_p or len(shares) > kept
    draw = (0.5 + draws * _GOLDEN) % 1.0
    whole = sums[kept - 1] if complete else top_p  # tokens that are not known are tiny steps
    mark = draw * whole
    chosen = next((i for i in range(kept) if mark < sums[i]), kept - 1 if complete else None)
    return Sampled(shares, kept, complete, whole, draw, chosen)
