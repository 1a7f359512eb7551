"""From the hidden states of a text to its vector (Reimers and Gurevych 2019, "Sentence-BERT",
https://arxiv.org/abs/1908.10084): pooling, dense layers and normalisation, as sentence-transformers
has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.models.model import RANK, TextEmbedding
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]


def _weighted_mean(states: F32) -> F32:
    """Return the mean of the states, weighted by position: later tokens count more."""
    places = np.arange(1, len(states) + 1, dtype=np.float32)[:, None]
    mean: F32 = (states * places).sum(axis=0) / places.sum()
    return mean


_POOLED: Mapping[str, Callable[[F32], F32]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(axis=0),
    "mean": lambda states: states.mean(axis=0, dtype=np.float32),
    "mean_sqrt_len": lambda states: states.sum(axis=0) / np.float32(len(states) ** 0.5),
    "weighted_mean": _weighted_mean,
    "last": lambda states: states[-1],
}


def check_makes_vectors(how: TextEmbedding | None, path: Path) -> None:
    """Raise RequestError for a model that, as its file says, scores pairs of texts instead."""
    if how is not None and RANK in how.poolings:
        problem = "pooling_type is 4 (rank): it scores pairs of texts and makes no vectors of them"
        raise RequestError(f"{path}: {problem}")


class Pooler:
    """Vectors of texts, as `how` says; `weights` have its dense layers."""

    def __init__(self, how: TextEmbedding, weights: Mapping[str, TensorData]) -> None:
        self._how = how
        self._dense = [_DenseLayer(i, name, weights) for i, name in enumerate(how.dense)]

    def __call__(self, states: F32) -> F32:
        """[tokens, width] -> [width of the vector]"""
        vector = np.concatenate([_POOLED[name](states) for name in self._how.poolings])
        for layer in self._dense:
            vector = layer(vector)
        if self._how.normalized:
            vector = vector / max(np.linalg.norm(vector), 1e-12)
        return vector.astype(np.float32)

    def width(self, width: int) -> int:
        """Return the dimension of the vectors made of hidden states of this width."""
        pooled = width * len(self._how.poolings)
        return self._dense[-1].width if self._dense else pooled


class _DenseLayer:
    def __init__(self, index: int, activation: str, weights: Mapping[str, TensorData]) -> None:
        self._matrix = weights[f"dense.{index}.weight"].dequantize()
        bias = weights.get(f"dense.{index}.bias")
        self._bias = np.float32(0) if bias is None else bias.dequantize()
        self._is_tanh = activation == "tanh"

    @property
    def width(self) -> int:
        return len(self._matrix)

    def __call__(self, vector: F32) -> F32:
        y: F32 = self._matrix @ vector + self._bias
        return np.tanh(y) if self._is_tanh else y


def cosines(vectors: F32) -> F32:
    """Return the cosine of every two vectors [texts, width] as float32 [texts, texts]; 0 for a
    vector of length 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: F32 = vectors / np.maximum(lengths, np.float32(1e-30))
    with np.errstate(all="ignore"):  # on aarch64 BLAS leaves flags that its results do not explain
        return unit @ unit.T
