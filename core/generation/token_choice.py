"""Rows of logits read by the C++ kernels: no sorting, no arrays as long as the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.messages import SamplingOptions

F32 = NDArray[np.float32]


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


def draw(logits: F32, options: SamplingOptions, recent: Sequence[int], uniform: float) -> int:
    """[V] -> a token: the repetition penalty on `recent`, top-k, then top-p and min-p on what is
    left, at temperature 1, then temperature. `uniform`, in [0, 1), decides.

    The logits are numbers, not all of them -inf. ValueError for tokens outside them.
    """
    token: int = _kernels().draw(
        logits,
        options.temperature,
        options.top_k,
        options.top_p,
        options.min_p,
        options.repetition_penalty,
        recent,
        uniform,
    )
    return token


@cache
def _kernels() -> Any:
    from llm_lite_kernels import _cpp

    from llm_lite.core.processor import isa_name

    return _cpp.Logits(isa_name())
