"""Rows of logits read by the C++ kernels: no sorting, no arrays as long as the vocabulary.

`core/generation/reference_choice.py` defines in NumPy which token `draw` gives.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import OPTIONS

F32 = NDArray[np.float32]
Ids = NDArray[np.int64]
Mask = NDArray[np.uint32]  # [ceil(V / 32)], the bit of token t is bit t % 32 of word t // 32
NO_IDS: Ids = np.empty(0, np.int64)


class DrawState(Struct, frozen=True):
    """The values of a draw that differ from token to token."""

    uniform: float  # in [0, 1), decides
    xtc_uniform: float = 1.0  # in [0, 1), whether XTC acts
    recent: Ids = field(default_factory=lambda: NO_IDS)  # tokens that the penalties apply to
    repeats: Ids = field(default_factory=lambda: NO_IDS)  # tokens that DRY searches
    unbroken: int = 0  # how many last ones of these stand behind the last sequence breaker
    mask: Mask | None = None  # tokens that may be chosen; None: all
    mu: float = math.inf  # of Mirostat: the most surprise, in bits


def sum_exp(logits: F32) -> tuple[float, float]:
    """[V] -> the largest, and the sum of e^(x - largest), which is NaN where a logit is."""
    found: tuple[float, float] = _kernels().sum_exp(logits)
    return found


def largest(logits: F32, count: int) -> NDArray[np.int64]:
    """[V] -> indices of the `count` largest, falling; of equal ones the first comes first.

    All of them where they are fewer; of logits that are numbers.
    """
    found: NDArray[np.int64] = _kernels().largest(logits, min(count, len(logits)))
    return found


def no_tokens(vocabulary: int) -> Mask:
    """Return a mask that allows none."""
    return np.zeros(-(-vocabulary // 32), np.uint32)


def allowed_of(logits: F32, mask: Mask, count: int) -> tuple[int, float, float, Ids]:
    """[V] -> how many tokens the mask allows; of their logits the largest and the sum of
    e^(x - largest); and the `count` likeliest of them, or all. ValueError for a shorter mask."""
    found: tuple[int, float, float, Ids] = _kernels().allowed(logits, mask, count)
    return found


def kernel_options(options: SamplingOptions) -> Any:
    """Return the options in the form of the kernels, made once for an answer."""
    from llm_lite_kernels import _cpp

    chosen = _cpp.Sampling()
    for name in OPTIONS:
        if hasattr(chosen, name):
            setattr(chosen, name, getattr(options, name))
    chosen.mirostat = options.mirostat_tau > 0
    return chosen


def draw(logits: F32, options: Any, state: DrawState) -> tuple[int, float]:
    """[V] -> a token, and -log2 of its probability among those that were left.

    `options` are of `kernel_options`. The logits are numbers; token -1 where all that may be chosen
    are -inf. ValueError for tokens outside the logits, and a mask that is shorter.
    """
    found: tuple[int, float] = _kernels().draw(
        logits,
        options,
        state.recent,
        state.repeats,
        state.unbroken,
        state.mask,
        state.mu,
        state.uniform,
        state.xtc_uniform,
    )
    return found


@cache
def _kernels() -> Any:
    from llm_lite_kernels import _cpp

    from llm_lite.core.exec.cpu.self_test import validated_isa

    return _cpp.Logits(validated_isa())
