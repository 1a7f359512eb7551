"""Drafts of a model's likeliest tokens, and the second likeliest where that is likely to be
right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.generation.speculation.draft import NO_BRANCH, Branch, Draft


class Likely(Struct, frozen=True):
    """The two likeliest tokens of a place, with the shares that the model gives them."""

    token: int
    chance: float
    second: int
    second_chance: float


def likely(logits: NDArray[np.float32]) -> Likely:
    """Return the two likeliest tokens of logits float32 [V], V > 1, with their probabilities; of
    equal ones the first."""
    token = int(logits.argmax())
    weights = np.exp(logits - logits[token])
    total = float(weights.sum())
    weights[token] = -1.0
    second = int(weights.argmax())
    return Likely(token, 1.0 / total, second, float(weights[second]) / total)


def draft_of(places: Sequence[Likely]) -> Draft:
    """Return a draft of the likeliest tokens of consecutive places; the branch is the second one of
    the place where that is the likeliest to be right while all before it are. Its evidence is its
    share in percent: branches with alike shares are scored together."""
    branch, best, before = NO_BRANCH, 0.0, 1.0  # before: the chance of all tokens so far
    for fork, place in enumerate(places):
        if before * place.second_chance > best:
            evidence = round(100 * place.second_chance)
            branch, best = Branch((place.second,), fork, evidence), before * place.second_chance
        before *= place.chance
    return Draft(tuple(place.token for place in places), branch=branch)
