"""Tiny encoders: configs, and random weights by the names of their tensors.

`python -m tests.fixtures.make_encoders` has transformers and sentence-transformers run them, and
stores what they give.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from tests.make_huggingface import random_values

VOCABULARY, TOKENS = 262, 23


@dataclass(frozen=True)
class EncoderFamily:
    """config: as on the hub. cases: changes to it. models: the class of transformers by case.
    separator: between the sentences of a pair. pooling, dense: of cases that sentence-transformers
    runs, what its Pooling is given and the widths of dense layers behind; linear: these have no
    activation and no bias."""

    name: str
    config: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, str]
    separator: int
    pooling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dense: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    linear: bool = False
    scale: float = 1.5

    def raw(self, case: str) -> dict[str, Any]:
        own = {"vocab_size": VOCABULARY, "architectures": [self.models[case]]}
        return {**own, **self.config, **self.cases[case]}

    def values(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        is_norm = "LayerNorm" in name or "layer_norm" in name
        if len(shape) == 1:
            mean = float(is_norm and not name.endswith("bias"))
            return random_values(name, shape, mean, 0.1 if is_norm else 0.3)
        return random_values(name, shape, 0.0, self.scale * shape[-1] ** -0.5)

    def dense_shapes(self, case: str, width: int) -> list[dict[str, tuple[int, ...]]]:
        """Names and shapes of each dense layer, behind hidden states of this width."""
        modes = sum(value is True for value in self.pooling[case].values())
        inputs, shapes = [width * max(modes, 1), *self.dense[case]], []
        for columns, rows in itertools.pairwise(inputs):
            bias = {} if self.linear else {"linear.bias": (rows,)}
            shapes.append({"linear.weight": (rows, columns), **bias})
        return shapes


def dense_tensors(
    family: EncoderFamily, number: int, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    stem = f"dense{number or ''}."
    return {name: family.values(stem + name, shape) for name, shape in shapes.items()}


def family_of(name: str) -> EncoderFamily:
    return import_module(f"tests.fixtures.encoders.{name}").FAMILY
