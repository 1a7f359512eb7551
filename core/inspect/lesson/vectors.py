"""Vectors as a trace has them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.messages.inspecting.lesson import MOST_VALUES, VectorPart


def part(vector: NDArray[np.float32]) -> VectorPart:
    """Return the parts that are shown of a vector float32 [n]."""
    return VectorPart(tuple(vector[:MOST_VALUES].tolist()), len(vector), rms(vector))


def rms(vector: NDArray[np.float32]) -> float:
    """Return sqrt(mean(x^2)), summed in float64: squares of large activations overflow float32."""
    return float(np.sqrt(np.square(vector, dtype=np.float64).mean()))
