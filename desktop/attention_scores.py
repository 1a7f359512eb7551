"""Mean scores of heads from the sums that the device makes.

Entropy of a row in nats; probability on the previous position; on earlier positions with the same
token (duplicate-token heads, Wang et al. 2022); on positions after those (induction heads, Olsson
et al. 2022); on the first position (attention sink, Xiao et al. 2023). Duplicates and induction are
means over the rows where there is something to look at: whose token has occurred before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from core.plan.attention_layers import AttentionLayer
from desktop.attention_state import Head, Order

ENTROPY, PREVIOUS, SAME, INDUCTION, FIRST, COUNT = range(6)
ORDERS: dict[Order, tuple[str, int | None]] = {
    "layer": ("By layer", None),
    "entropy": ("Entropy", ENTROPY),
    "previous": ("Previous token", PREVIOUS),
    "same": ("Same token", SAME),
    "induction": ("Induction", INDUCTION),
    "first": ("First token", FIRST),
}


def mean_scores(
    sums: NDArray[np.float32] | None, layers: Sequence[AttentionLayer], tokens: tuple[int, ...]
) -> dict[Head, NDArray[np.float64]] | None:
    """By head, the means of the first five columns of `sums`, float64 [5]; None without sums.

    Where the maps are not complete the rows that are there stand for all.
    """
    if sums is None:
        return None
    heads = [(at, head) for at, layer in enumerate(layers) for head in range(layer.heads)]
    count = np.maximum(sums[:, COUNT].astype(np.float64), 1.0)
    means = sums[:, :COUNT] / count[:, None]
    repeats = max(repeated(tokens), 1) / max(len(tokens), 1)  # share of rows with an earlier twin
    means[:, [SAME, INDUCTION]] /= repeats
    return dict(zip(heads, np.minimum(means, _LIMITS), strict=True))


_LIMITS = np.array([np.inf, 1.0, 1.0, 1.0, 1.0])


@lru_cache(maxsize=4)
def repeated(tokens: tuple[int, ...]) -> int:
    """Positions whose token stands at an earlier position too."""
    return len(tokens) - len(set(tokens))
