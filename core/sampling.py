"""Logits -> token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import RequestError
from core.messages import SamplingOptions

BEST = 5  # tokens told besides the one that was chosen
_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Choice:
    token: int
    probability: float  # at temperature 1, before penalty and filters; nan: not judged
    best: tuple[tuple[int, float], ...] = ()  # the likeliest tokens and their probabilities, so


def check(options: SamplingOptions) -> None:
    """RequestError that names the first setting out of its range."""
    ranges = (
        ("temperature", options.temperature, 0.0, 100.0),
        ("top-k", options.top_k, 0, 1 << 30),
        ("top-p", options.top_p, 0.0, 1.0),
        ("min-p", options.min_p, 0.0, 1.0),
        ("repetition penalty", options.repetition_penalty, 0.01, 100.0),
        ("penalty window", options.penalty_window, 0, 1 << 30),
        ("max new tokens", options.max_new_tokens, 1, 1 << 30),
        ("seed", 0 if options.seed is None else options.seed, 0, (1 << 64) - 1),
    )
    for name, value, low, high in ranges:
        if not low <= value <= high:  # NaN fails too
            raise RequestError(f"{name}: expected {low} to {high}, found {value}")


class Sampler:
    """Penalty, then top-k, top-p and min-p on the model's own distribution, then temperature.

    With the same seed and logits it draws the same tokens.
    """

    def __init__(self, options: SamplingOptions) -> None:
        check(options)
        self._options = options
        self._random = np.random.default_rng(options.seed)

    def choose(self, logits: NDArray[np.float32], context: Sequence[int]) -> Choice:
        """logits float32 [V]; `context` are the tokens before, for the repetition penalty.

        RequestError where the logits are no distribution: a NaN or +inf among them, or -inf only.
        """
        _check_numbers(logits)
        return judge(logits, self._draw(self._penalized(logits, context)))

    def _draw(self, scores: NDArray[np.float32]) -> int:
        if self._options.temperature == 0.0:
            return int(scores.argmax())
        tokens = self._top_k(scores)
        tokens, probabilities = self._top_p_and_min_p(tokens, _softmax(scores[tokens]))
        tempered = _softmax(_cooled(np.log(probabilities), self._options.temperature))
        return int(tokens[self._random.choice(len(tokens), p=tempered)])

    def _penalized(
        self, logits: NDArray[np.float32], context: Sequence[int]
    ) -> NDArray[np.float32]:
        """Keskar et al. 2019: logits of recent tokens move away from "likely" by the factor."""
        window = self._options.penalty_window
        if self._options.repetition_penalty == 1.0 or not window or not context:
            return logits
        recent = np.unique(np.asarray(context[-window:], np.int64))
        factor = np.float32(self._options.repetition_penalty)
        scores = logits.copy()
        scores[recent] = np.where(
            scores[recent] > 0, scores[recent] / factor, scores[recent] * factor
        )
        return scores

    def _top_k(self, scores: NDArray[np.float32]) -> NDArray[np.intp]:
        """Token ids by falling score: k of them, or those that top-p could still reach."""
        k = self._options.top_k or len(scores)
        if k < len(scores):
            return _largest(scores, k)
        return np.argsort(-scores, kind="stable")

    def _top_p_and_min_p(
        self, tokens: NDArray[np.intp], probabilities: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """`probabilities` fall. Holtzman et al. 2020 and Nguyen et al. 2024; at least one stays."""
        before = np.cumsum(probabilities) - probabilities
        keep = (before < self._options.top_p) & (
            probabilities >= self._options.min_p * probabilities[0]
        )
        keep &= probabilities > 0
        keep[0] = True
        return tokens[keep], probabilities[keep]


def _cooled(falling: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """(x - max) / temperature: the best stays 0 however small the temperature is."""
    with np.errstate(over="ignore"):
        return (falling - falling[0]) / temperature


def judge(logits: NDArray[np.float32], token: int) -> Choice:
    """The token with its probability and those of the likeliest; logits float32 [V].

    RequestError as `Sampler.choose`.
    """
    _check_numbers(logits)
    weights = np.exp(logits - logits.max())
    total = float(weights.sum(dtype=np.float64))
    best = tuple((i, float(weights[i]) / total) for i in _largest(logits, BEST).tolist())
    return Choice(token, float(weights[token]) / total, best)


def likeliest(logits: NDArray[np.float32]) -> tuple[tuple[int, float], ...]:
    """The `BEST` likeliest tokens and their probabilities, the likeliest first."""
    return judge(logits, 0).best


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Indices of the largest values, falling.

    They all lie in the `count` blocks with the largest maxima, which are found much faster.
    """
    whole = len(values) // _BLOCK
    candidates = np.arange(whole * _BLOCK, len(values))
    if whole:
        maxima = values[: whole * _BLOCK].reshape(whole, _BLOCK).max(axis=1)
        blocks = np.sort(np.argpartition(-maxima, min(count, whole) - 1)[:count])
        inside = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).reshape(-1)
        candidates = np.concatenate([inside, candidates])
    if count < len(candidates):
        kept = np.argpartition(-values[candidates], count)[:count]
        candidates = candidates[np.sort(kept)]
    return candidates[np.argsort(-values[candidates], kind="stable")]


def _check_numbers(logits: NDArray[np.float32]) -> None:
    if not np.isfinite(logits.max()):  # a NaN is its own maximum
        raise RequestError(
            "the model computed values that are not numbers, so no token can be chosen: "
            "its file may be damaged"
        )


def _softmax(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()
