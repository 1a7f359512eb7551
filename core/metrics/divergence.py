"""The divergence of one model's next-token distributions from another's.

Defined as llama.cpp's perplexity tool defines them (tools/perplexity, --kl-divergence), but from
exact logits: that tool keeps the reference's in 16 bits and leaves out tokens below exp(-16).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import NotFiniteError
from llm_lite.core.finite import ADVICE

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_LARGEST_LOG = 700.0  # e^709.8 is the largest number
_BLOCK_BYTES = 32 << 20  # of float64 at a time


class LogitRows(Struct, frozen=True):
    """Measures of logits, one value a row: natural logarithms, probabilities in 0..1,
    divergences in nats."""

    kld: F64  # KL(reference || tested)
    log_p_reference: F64  # of the target
    log_p: F64
    same_top: NDArray[np.bool_]  # whether both find the same token the likeliest


def log_softmax(logits: F32) -> F64:
    """Return log probabilities float64 [n, V] of logits float32 [n, V]."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values


def compare(reference: F32, tested: F32, targets: NDArray[np.int64]) -> LogitRows:
    """Compare logits, both float32 [n, V]; `targets` int [n] are the tokens that really follow."""
    count, vocabulary = reference.shape
    step = max(1, _BLOCK_BYTES // (8 * vocabulary))
    parts = [
        _compare(reference[i : i + step], tested[i : i + step], targets[i : i + step])
        for i in range(0, count, step)
    ]
    return concatenate(parts)


def _compare(reference: F32, tested: F32, targets: NDArray[np.int64]) -> LogitRows:
    log_p, log_q = log_softmax(reference), log_softmax(tested)
    rows = np.arange(len(targets))
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):  # what the reference rules out (0 * inf) costs nothing
        terms = np.where(p > 0, p * (log_p - log_q), 0.0)
    return LogitRows(
        np.maximum(terms.sum(axis=-1), 0.0),
        log_p[rows, targets],
        log_q[rows, targets],
        reference.argmax(axis=-1) == tested.argmax(axis=-1),
    )


def concatenate(parts: list[LogitRows]) -> LogitRows:
    """Return all rows of the parts, in order; at least one part."""
    return LogitRows(
        np.concatenate([part.kld for part in parts]),
        np.concatenate([part.log_p_reference for part in parts]),
        np.concatenate([part.log_p for part in parts]),
        np.concatenate([part.same_top for part in parts]),
    )


class Estimate(Struct, frozen=True):
    """A mean and its standard error, sqrt(variance / (n - 1)); nan for a single value."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: F64) -> Estimate:
        count = len(values)
        error = math.sqrt(float(values.var()) / (count - 1)) if count > 1 else math.nan
        return cls(float(values.mean()), error)


def perplexity(log_p: F64) -> Estimate:
    """Return exp(mean negative log likelihood), its error carried through the exponential.

    NotFiniteError where it is larger than a number can be.
    """
    nll = Estimate.of(-log_p)
    if nll.mean > _LARGEST_LOG:
        raise NotFiniteError(
            f"the perplexity is beyond all numbers: the text costs {nll.mean:.4g} nats a token, "
            f"so the model's logits are far too large; {ADVICE}"
        )
    value = math.exp(nll.mean)
    return Estimate(value, nll.error * value)


def percentile(values: F64, percent: float) -> float:
    """Return a percentile, linear between the nearest ranks, as llama.cpp and NumPy."""
    return float(np.percentile(values, percent))
