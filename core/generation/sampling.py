"""Sampling: a row of logits to a token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.finite import not_finite
from llm_lite.core.generation.token_choice import (
    NO_IDS,
    DrawState,
    Ids,
    Mask,
    allowed_of,
    draw,
    kernel_options,
    largest,
    sum_exp,
)
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIASES,
    MOST_TEXTS,
    OPTIONS,
    Option,
)

BEST = 5  # tokens returned besides the one that was chosen
TokenBytes = Callable[[int], bytes]
Likeliest = tuple[tuple[int, float], ...]  # tokens and their probabilities, the likeliest first


class Allowed(Struct, frozen=True):
    """The tokens that a mask left."""

    count: int
    probability: float  # of all of them together, as in TokenChoice
    best: Likeliest


class TokenChoice(Struct, frozen=True):
    token: int
    probability: float  # at temperature 1, without mask, penalties and filters; nan: not scored
    best: Likeliest = ()  # of all tokens
    allowed: Allowed | None = None  # None: all were
    accepted: bool = False  # the token was drafted for its place
    rejected: tuple[int, ...] = ()  # tokens that were drafted for its place and behind, in vain


def check(options: SamplingOptions) -> None:
    """Raise RequestError that names the first setting out of its range."""
    for name, row in OPTIONS.items():
        _check_option(row, getattr(options, name))
    if options.json_schema and options.grammar:
        raise RequestError("expected a JSON schema or a grammar, found both")


def _check_option(row: Option, value: Any) -> None:
    match row.kind:
        case "number" | "whole":
            if value is None and row.default is None:
                return
            if not row.low <= value <= row.high:  # NaN fails too
                raise RequestError(
                    f"{row.readable_name}: expected {row.low} to {row.high}, found {value}"
                )
        case "texts":
            _check_texts(row.readable_name, value)
        case "biases":
            for token, bias in value:
                if token < 0 or not row.low <= bias <= row.high:
                    expected = f"a token id and {row.low:g} to {row.high:g}"
                    raise RequestError(
                        f"{row.readable_name}: expected {expected}, found {token}={bias}"
                    )
            if len(value) > MOST_BIASES:
                raise RequestError(f"{row.readable_name}: expected at most {MOST_BIASES} tokens")


def check_bias(options: SamplingOptions, vocabulary: int) -> None:
    """Raise RequestError for a bias of a token that the model does not have."""
    for token, _ in options.logit_bias:
        if token >= vocabulary:
            raise RequestError(f"logit bias: token {token} is not in 0..{vocabulary - 1}")


def _check_texts(what: str, texts: Sequence[str]) -> None:
    if len(texts) > MOST_TEXTS:
        raise RequestError(f"{what}: expected at most {MOST_TEXTS}, found {len(texts)}")
    for text in texts:
        if not 0 < len(text) <= LONGEST_TEXT:
            found = f"{len(text)} characters"
            raise RequestError(f"{what}: expected 1 to {LONGEST_TEXT} characters, found {found}")


class Sampler:
    """Samples the next token from a row of logits.

    In the order of llama.cpp's default chain (common/sampling.cpp, ggml-org/llama.cpp), which puts
    the temperature last:

    1. the mask of a grammar, if there is one: what it forbids becomes -inf;
    2. logit bias: added (OpenAI's API);
    3. repetition penalty, once a token of the window: Keskar et al. 2019, CTRL; then frequency
       penalty times its count there, and presence penalty (OpenAI's API);
    4. DRY: p-e-w, pull request 5677 of oobabooga/text-generation-webui, 2024. A token that would go
       on with a repeat of n last tokens loses multiplier * base^(n - allowed length);
    5. top-k: Fan et al. 2018;
    6. typical-p: Meister et al. 2022, Locally Typical Sampling;
    7. top-p: Holtzman et al. 2020; 8. min-p: Nguyen et al. 2024;
    9. XTC: p-e-w, pull request 6335 of the same, 2024. With the probability set, all tokens that
       reach the threshold go, but the least likely of them;
    10. temperature, and the draw.

    Each filter sees the distribution that those before it left, at temperature 1. Mirostat 2 (Basu
    et al. 2021) takes the place of 5 to 9: at the temperature, tokens more surprising than mu bits
    go, and mu follows what was drawn. Greedy takes the best after 4.

    With the same seed and logits it draws the same tokens.
    """

    def __init__(
        self, options: SamplingOptions, token_bytes: TokenBytes | None = None, best: int = BEST
    ) -> None:
        """`token_bytes` spells tokens, for DRY's sequence breakers; without it there are none.
        `best`: how many likeliest tokens come with each choice."""
        check(options)
        self._options, self._best = options, best
        self._kernel_options = kernel_options(options)
        self._random = np.random.default_rng(options.seed)
        self._mu = 2 * options.mirostat_tau
        self._breaks = Breaks(options, token_bytes) if options.dry_multiplier else None

    def choose(
        self, logits: NDArray[np.float32], context: Sequence[int], mask: Mask | None = None
    ) -> TokenChoice:
        """Choose a token. logits float32 [V]; `context` are the tokens before, more of them at each
        call.

        `mask` forbids all other tokens; the probability in the result is that without it.
        NotFiniteError where the logits are no distribution: a NaN or +inf among them, or -inf only.
        RequestError where all tokens are forbidden.
        """
        normalizer = _normalizer_of(logits)
        options = self._options
        greedy = options.temperature == 0.0
        fitted = None if mask is None else _fitted(mask, len(logits))
        state = DrawState(
            uniform=0.0 if greedy else self._random.random(),
            xtc_uniform=self._random.random() if options.xtc_probability else 1.0,
            recent=self._recent(context),
            repeats=_last(context, options.dry_window) if self._breaks else NO_IDS,
            unbroken=self._breaks.unbroken(context) if self._breaks else 0,
            mask=fitted,
            mu=self._mu,
        )
        token, surprise = draw(logits, self._kernel_options, state)
        if token < 0:
            raise RequestError("no token is allowed here: the answer ends")
        self._mu -= options.mirostat_eta * (surprise - options.mirostat_tau)
        return _choice(logits, normalizer, token, fitted, self._best)

    def score(self, logits: NDArray[np.float32], token: int) -> TokenChoice:
        """Return a given token as if it had been chosen."""
        return score_token(logits, token, best=self._best)

    def _recent(self, context: Sequence[int]) -> Ids:
        """Return the tokens that penalties apply to."""
        options = self._options
        penalties = (
            options.repetition_penalty - 1,
            options.presence_penalty,
            options.frequency_penalty,
        )
        return _last(context, options.penalty_window) if any(penalties) else NO_IDS


class Breaks:
    """Counts the tokens behind the last sequence breaker."""

    def __init__(self, options: SamplingOptions, token_bytes: TokenBytes | None) -> None:
        self._token_bytes, self._window = token_bytes, options.dry_window
        self._breakers = [text.encode() for text in options.dry_breakers] if token_bytes else []
        self._longest = max(map(len, self._breakers), default=0)
        self._tail = b""  # of what was said, as long as a breaker may begin in it
        self._taken = self._count = 0

    def unbroken(self, context: Sequence[int]) -> int:
        for token in context[max(self._taken, len(context) - self._window) :]:
            self._count += 1
            if self._token_bytes is None or not self._breakers:
                continue
            self._tail += self._token_bytes(token)
            if any(breaker in self._tail for breaker in self._breakers):
                self._count, self._tail = 0, b""
            self._tail = self._tail[-self._longest :]
        self._taken = len(context)
        return self._count


def _last(context: Sequence[int], count: int) -> Ids:
    return np.array(context[-count:] if count else (), np.int64)


def _fitted(mask: Mask, size: int) -> Mask:
    """Return the mask with the model's rows for tokens that its vocabulary lacks: they are
    forbidden."""
    lacking = -(-size // 32) - len(mask)
    return np.pad(mask, (0, lacking)) if lacking > 0 else mask


def score_token(
    logits: NDArray[np.float32], token: int, mask: Mask | None = None, best: int = BEST
) -> TokenChoice:
    """Return the token with its probability and those of the likeliest; logits float32 [V].

    NotFiniteError as `Sampler.choose`.
    """
    fitted = None if mask is None else _fitted(mask, len(logits))
    return _choice(logits, _normalizer_of(logits), token, fitted, best)


def likeliest(logits: NDArray[np.float32], count: int = BEST) -> Likeliest:
    """Return the likeliest tokens and their probabilities, the likeliest first."""
    return score_token(logits, 0, best=count).best


def _normalizer_of(logits: NDArray[np.float32]) -> tuple[float, float]:
    """Return what makes probabilities of logits: the largest, and the sum of e^(x - largest)."""
    most, total = sum_exp(logits)
    if not math.isfinite(most) or not math.isfinite(total):
        raise not_finite("the logits", "NaN" if math.isnan(total) else "infinity")
    return most, total


def _choice(
    logits: NDArray[np.float32],
    normalizer: tuple[float, float],
    token: int,
    mask: Mask | None,
    count: int = BEST,
) -> TokenChoice:
    """Return the choice with the `count` likeliest tokens; with 0 without these and the allowed."""
    best = _likeliest(logits, normalizer, largest(logits, count).tolist()) if count else ()
    probability = _likeliest(logits, normalizer, [token])[0][1]
    allowed = None if mask is None or not count else _allowed(logits, normalizer, mask)
    return TokenChoice(token, probability, best, allowed)


def _allowed(logits: NDArray[np.float32], normalizer: tuple[float, float], mask: Mask) -> Allowed:
    """Return how many tokens a mask allows, their probability, and the likeliest; at least one is
    allowed."""
    count, most, total, best = allowed_of(logits, mask, BEST)
    together = math.exp(most - normalizer[0]) * total / normalizer[1]
    return Allowed(count, together, _likeliest(logits, normalizer, best.tolist()))


def _likeliest(
    logits: NDArray[np.float32], normalizer: tuple[float, float], tokens: Sequence[int]
) -> Likeliest:
    most, total = normalizer
    return tuple((token, math.exp(float(logits[token]) - most) / total) for token in tokens)
