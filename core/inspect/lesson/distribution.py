"""What follows a token, bounded: its largest logits, and sums over the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.messages.inspecting.lesson import (
    MOST_LOGITS,
    TEMPERATURES,
    Distribution,
    TokenLogit,
)

NO_LOGITS = Distribution((), (0.0,) * len(TEMPERATURES), None, 0)  # of a model without a head


def distribution(logits: NDArray[np.float32], next_token: Sequence[int]) -> Distribution:
    """Of logits float32 [V]; `next_token`: the one that stands behind, if one does. Texts are
    empty: `with_texts` has them."""
    order = np.argsort(-logits, kind="stable")
    top, rest = order[:MOST_LOGITS], order[MOST_LOGITS:]
    below = logits[rest].astype(np.float64) - float(logits[order[0]])
    tails = tuple(float(np.exp(below / temperature).sum()) for temperature in TEMPERATURES)
    went_on, rank = None, 0
    for token in next_token:
        went_on = TokenLogit(token, "", float(logits[token]))
        rank = int((logits > logits[token]).sum()) + 1
    found = tuple(TokenLogit(int(i), "", float(logits[i])) for i in top)
    return Distribution(found, tails, went_on, rank)
