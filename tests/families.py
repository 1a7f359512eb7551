"""Tiny checkpoints of a family of models: made here, their logits stored by transformers.

A family says its configs (tests/fixtures/families/); `python -m tests.fixtures.make_families` has
transformers make a model of each, and stores the config.json that it writes, the names and shapes
of its tensors and its logits in float32. Weights are random and made from their names, here and
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, GGUFWriter, RopeScalingType

from tests.make_huggingface import random_values

TOKENS, VOCABULARY = 24, 262

Writer = Callable[[GGUFWriter, Mapping[str, Any]], None]
Own = Callable[[str, str, tuple[int, ...]], np.ndarray | None]
ToGguf = Callable[[str, np.ndarray, Mapping[str, Any]], tuple[str | None, np.ndarray]]


Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StandIn:
    """The model of transformers that a family equals which transformers lacks.

    model_type: its. shapes: of the family's tensors, by a config. tensors: the model's, of the
    family's. changes: to the family's config. in_gguf: GGUF files have its tensors.
    """

    model_type: str
    shapes: Callable[[Mapping[str, Any]], dict[str, tuple[int, ...]]]
    tensors: Callable[[Values, Mapping[str, Any]], dict[str, np.ndarray]]
    changes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}
    in_gguf: bool = False

    def config(self, own: Mapping[str, Any]) -> dict[str, Any]:
        return {**own, **self.changes(own), "model_type": self.model_type}


def as_named(
    own: Values, of_model: Mapping[str, str], of_layer: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """The tensors under other names; those of layers by what stands behind the layer's number."""
    found = {}
    for name, values in own.items():
        number, _, rest = re.sub(r"^\w+\.\w+\.(?=\d+\.)", "", name).partition(".")
        layer = of_layer.get(rest) if number.isdigit() else None
        found[f"model.layers.{number}.{layer}" if layer else of_model.get(name, name)] = values
    return found


@dataclass(frozen=True)
class Family:
    """config: as on the hub. cases: changes to it. arch: of gguf's constants.

    permuted: GGUF files have rows of Q and K so that rotary pairs are neighbours. centred: norms
    of checkpoints say how much more than 1. fields: writes what this family alone has in GGUF.
    context: positions to open a case with, where not all. scale: of random matrices. keys: what
    its config calls the fields of others. transposed: ends of names of matrices that checkpoints
    store as [inputs, outputs]. in_turns: ends of those that have a head's query, key and value in
    turns, where GGUF has all queries first. prepare: makes transformers' model do what its config
    says. in_gguf: the cases that GGUF files can hold, where not all. rings: cases whose windows are
    shorter than the text. tokens: of the text. whole_norms: ends of norms that are not `centred`.
    own: a case's values of a tensor, where not as those of others. to_gguf: the name of a tensor in
    GGUF, where gguf has none for it, and its values there. sensitivity: how many
    times as much as those of others its logits change where weights are rounded. stand_in: of a
    family that transformers lacks. around: the fields of a config that holds this one as its
    text_config, where transformers has no model of text alone; its other tensors are left out.
    gguf: its name where gguf lacks it; `arch` is then one that names tensors alike. apart: the
    tensors of a checkpoint under names that gguf knows, where GGUF files have one of them in parts.
    """

    name: str
    config: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]]
    arch: MODEL_ARCH
    permuted: bool = False
    centred: bool = False
    fields: Writer = lambda writer, config: None
    context: Mapping[str, int] = field(default_factory=dict)
    scale: float = 1.5
    keys: Mapping[str, str] = field(default_factory=dict)
    transposed: tuple[str, ...] = ()
    in_turns: tuple[str, ...] = ()
    prepare: Callable[[Any], None] = lambda model: None
    in_gguf: tuple[str, ...] | None = None
    rings: tuple[str, ...] = ()
    tokens: int = TOKENS
    whole_norms: tuple[str, ...] = ()
    own: Own = lambda case, name, shape: None
    to_gguf: ToGguf = lambda name, values, config: (None, values)
    sensitivity: float = 1.0
    stand_in: StandIn | None = None
    around: Mapping[str, Any] | None = None
    gguf: str = ""
    apart: Callable[[Values], dict[str, np.ndarray]] = dict

    def raw(self, case: str) -> dict[str, Any]:
        base = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        return {**base, **self.config, **self.cases[case]}

    def common(self, case: str) -> dict[str, Any]:
        """`raw` under the names that most families give to their fields."""
        config = self.raw(case)
        return {**config, **{name: config[own] for name, own in self.keys.items()}}

    def is_centred(self, name: str) -> bool:
        return self.centred and not name.endswith(self.whole_norms)

    def values(self, name: str, shape: tuple[int, ...], case: str = "") -> np.ndarray:
        own = self.own(case, name, shape)
        if own is not None:
            return own
        if len(shape) == 1:
            is_norm = "norm" in name or ".ln_" in name or "scalar" in name
            mean = float(is_norm and not self.is_centred(name) and not name.endswith("bias"))
            return random_values(name, shape, mean, 0.1 if is_norm else 0.3)
        return random_values(name, shape, 0.0, self.scale * shape[-1] ** -0.5)


def family_of(name: str) -> Family:
    return import_module(f"tests.fixtures.families.{name}").FAMILY


def write_yarn(writer: GGUFWriter, scaling: Mapping[str, Any]) -> None:
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
