"""Cosine similarity of texts, by their vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def cosines(vectors: F32) -> F32:
    """Return the cosine of every two vectors [texts, width] as float32 [texts, texts]; 0 for a
    vector of length 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: F32 = vectors / np.maximum(lengths, np.float32(1e-30))
    with np.errstate(all="ignore"):  # on aarch64 BLAS leaves flags that its results do not explain
        return unit @ unit.T
