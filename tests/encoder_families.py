"""Tiny encoders: configs, and random weights by the names of their tensors.

`python -m tests.fixtures.make_encoders` has transformers and sentence-transformers run them, and
stores what they give.
"""

from __future__ import annotations

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
    runs, what its Pooling is given and the width of a dense layer behind (0: none)."""

    name: str
    config: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, str]
    separator: int
    pooling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dense: Mapping[str, int] = field(default_factory=dict)
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


def family_of(name: str) -> EncoderFamily:
    return import_module(f"tests.fixtures.encoders.{name}").FAMILY
