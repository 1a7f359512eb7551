"""Tiny encoder-decoders: configs, and random weights by the names of their tensors.

`python -m tests.fixtures.make_seq2seq` has transformers run them, and stores what they give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from tests.make_huggingface import random_values

VOCABULARY, SOURCE, TARGET = 262, 19, 11
NEW_TOKENS = 14  # that searches may add
_ENDS = list(range(100, 150))  # so many that hypotheses end early
# Options of transformers' `generate`.
BEAMS: tuple[dict[str, Any], ...] = (
    {"num_beams": 4},
    {"num_beams": 4, "eos_token_id": _ENDS, "length_penalty": 0.6},
    {"num_beams": 3, "eos_token_id": _ENDS, "early_stopping": True},
    {"num_beams": 2, "eos_token_id": _ENDS, "early_stopping": "never", "length_penalty": 2.0},
)


@dataclass(frozen=True)
class Seq2SeqFamily:
    """config: as on the hub. cases: changes to it. stored_tables: ends of names of tensors whose
    values transformers makes, which are stored as they are. heads: cases whose checkpoint has a
    head that is not the embedding."""

    name: str
    config: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]]
    scale: float = 1.5
    stored_tables: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict)

    def raw(self, case: str) -> dict[str, Any]:
        return {"vocab_size": VOCABULARY, **self.config, **self.cases[case]}

    def values(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        is_norm = "norm" in name
        if len(shape) == 1 or shape[0] == 1:
            mean = float(is_norm and not name.endswith("bias"))
            return random_values(name, shape, mean, 0.1 if is_norm else 0.3)
        if "relative_attention_bias" in name:
            return random_values(name, shape, 0.0, 1.0)
        # Scores of T5 are not divided by the root of a head's width: smaller queries stand for it.
        scale = 0.5 if name.endswith(".q.weight") else self.scale
        return random_values(name, shape, 0.0, scale * shape[-1] ** -0.5)


def family_of(name: str) -> Seq2SeqFamily:
    return import_module(f"tests.fixtures.seq2seq.{name}").FAMILY
