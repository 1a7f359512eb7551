"""Logits -> token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.finite import not_finite
from llm_lite.core.generation.token_choice import draw, largest, sum_exp
from llm_lite.core.messages import SamplingOptions

BEST = 5  # tokens told besides the one that was chosen


@dataclass(frozen=True, slots=True)
class TokenChoice:
    token: int
    probability: float  # at temperature 1, before penalty and filters; nan: not scored
    best: tuple[tuple[int, float], ...] = ()  # the likeliest tokens and theirs


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
    """Repetition penalty, top-k, then top-p and min-p on what is left, at temperature 1, then
    temperature.

    With the same seed and logits it draws the same tokens.
    """

    def __init__(self, options: SamplingOptions) -> None:
        check(options)
        self._options = options
        self._random = np.random.default_rng(options.seed)

    def choose(self, logits: NDArray[np.float32], context: Sequence[int]) -> TokenChoice:
        """logits float32 [V]; `context` are the tokens before, for the repetition penalty.

        NotFiniteError where the logits are no distribution: a NaN or +inf among them, or -inf only.
        """
        seen = _largest_and_sum(logits)
        greedy = self._options.temperature == 0.0
        uniform = 0.0 if greedy else self._random.random()
        return _choice(logits, seen, draw(logits, self._options, self._recent(context), uniform))

    def _recent(self, context: Sequence[int]) -> Sequence[int]:
        """Tokens that the penalty is for."""
        window = self._options.penalty_window
        return context[-window:] if window and self._options.repetition_penalty != 1.0 else ()


def score_token(logits: NDArray[np.float32], token: int) -> TokenChoice:
    """The token with its probability and those of the likeliest; logits float32 [V].

    NotFiniteError as `Sampler.choose`.
    """
    return _choice(logits, _largest_and_sum(logits), token)


def likeliest(logits: NDArray[np.float32]) -> tuple[tuple[int, float], ...]:
    """The `BEST` likeliest tokens and their probabilities, the likeliest first."""
    return score_token(logits, 0).best


def _largest_and_sum(logits: NDArray[np.float32]) -> tuple[float, float]:
    """The largest, and the sum of e^(x - largest)."""
    most, total = sum_exp(logits)
    if not math.isfinite(most) or not math.isfinite(total):
        raise not_finite("the logits", "NaN" if math.isnan(total) else "infinity")
    return most, total


def _choice(logits: NDArray[np.float32], seen: tuple[float, float], token: int) -> TokenChoice:
    most, total = seen
    likely = largest(logits, BEST).tolist()
    probability, *rest = (math.exp(float(logits[i]) - most) / total for i in (token, *likely))
    return TokenChoice(token, probability, tuple(zip(likely, rest, strict=True)))
