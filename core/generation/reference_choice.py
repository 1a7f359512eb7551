"""The reference of choosing a token, in NumPy: slow and plain, sorting the vocabulary.

The definition of `token_choice.draw`, whose C++ gives the same token. `sampling` says where each
formula is from.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.generation.token_choice import F32, DrawState, Ids
from llm_lite.core.messages import SamplingOptions

_MOST_PENALTY = 1e30  # DRY's, so that no score becomes -inf


def draw(logits: F32, options: SamplingOptions, state: DrawState) -> int:
    """[V] -> a token; -1 where all that may be chosen are -inf."""
    scores = changed_scores(logits, options, state)
    order = np.argsort(-scores, kind="stable")
    if scores[order[0]] == -math.inf:
        return -1
    if options.temperature == 0:
        return int(order[0])
    if options.mirostat_tau > 0:
        kept = _unsurprising(scores, order, options.temperature, state.mu)
    else:
        kept = order[: options.top_k or None]
        kept = _typical(scores, kept, options.typical_p)
        kept = _likely(scores, kept, options.top_p, options.min_p)
        if state.xtc_uniform < options.xtc_probability:
            kept = _without_top_choices(scores, kept, options.xtc_threshold)
    ends = np.cumsum(softmax(scores[kept], options.temperature))
    return int(kept[np.searchsorted(ends[:-1], state.uniform, side="right")])


def softmax(scores: NDArray[np.floating], temperature: float = 1.0) -> NDArray[np.float64]:
    weights = np.exp((scores.astype(float) - float(scores.max())) / temperature)
    return weights / weights.sum()


def changed_scores(logits: F32, options: SamplingOptions, state: DrawState) -> F32:
    """Return the logits [V] with mask, biases, penalties and DRY applied."""
    scores = logits.copy()
    if state.mask is not None:
        bits = np.unpackbits(state.mask.view(np.uint8), bitorder="little")[: len(scores)]
        scores[bits == 0] = -np.inf
    for token, bias in options.logit_bias:
        scores[token] += np.float32(bias)
    some, counts = np.unique(state.recent, return_counts=True)
    factor = np.float32(options.repetition_penalty)
    scores[some] = np.where(scores[some] > 0, scores[some] / factor, scores[some] * factor)
    lost = counts * options.frequency_penalty + options.presence_penalty
    scores[some] -= lost.astype(np.float32)
    if options.dry_multiplier > 0:
        for token, length in repeats(state.repeats, state.unbroken).items():
            if length >= max(options.dry_allowed_length, 1):
                power = math.pow(options.dry_base, length - options.dry_allowed_length)
                penalty = min(options.dry_multiplier * power, _MOST_PENALTY)
                scores[token] -= np.float32(penalty)
    return scores


def repeats(tokens: Ids, unbroken: int) -> dict[int, int]:
    """Return for each token that would continue a repeat how many of the last tokens preceded it
    before, at most `unbroken`."""
    longest: dict[int, int] = {}
    for place in range(1, len(tokens)):
        length = 0
        while length < min(place, unbroken) and tokens[place - 1 - length] == tokens[-1 - length]:
            length += 1
        token = int(tokens[place])
        longest[token] = max(longest.get(token, 0), length)
    return longest


def _typical(scores: F32, kept: Ids, mass: float) -> Ids:
    if mass >= 1:
        return kept
    p = softmax(scores[kept])
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(p)
        entropy = np.where(p > 0, p * surprise, 0).sum()
        order = np.argsort(np.abs(surprise - entropy), kind="stable")
    sums = np.cumsum(p[order]) - p[order]
    few = order[(sums < mass) & (p[order] > 0)]
    return kept[np.sort(few if len(few) else order[:1])]


def _likely(scores: F32, kept: Ids, top_p: float, min_p: float) -> Ids:
    p = softmax(scores[kept])
    # A mass of 1 is all of them, to which sums come before the last ones by rounding.
    stay = ((np.cumsum(p) - p < top_p) | (top_p >= 1)) & (p >= min_p * p[0]) & (p > 0)
    stay[0] = True
    return kept[stay]


def _without_top_choices(scores: F32, kept: Ids, threshold: float) -> Ids:
    viable = int((softmax(scores[kept]) >= threshold).sum())
    return kept[viable - 1 :] if viable >= 2 and threshold <= 0.5 else kept


def _unsurprising(scores: F32, order: Ids, temperature: float, mu: float) -> Ids:
    with np.errstate(divide="ignore"):
        surprise = -np.log2(softmax(scores[order], temperature))
    return order[: max(1, int((surprise <= mu).sum()))]
