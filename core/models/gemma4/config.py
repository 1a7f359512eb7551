"""The fields of Gemma 4, under GGUF's keys and those of transformers' checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT, ROPE_BASE, ROPE_FACTOR, SOFTCAP
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flags,
    integer,
    integers,
    number,
    row,
)
from llm_lite.core.models.gemma3n.config import PER_LAYER_TABLE, caches_to_share
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import NotedMeta, replace

_PERIOD = 6  # of layers; the last one sees all
_STILL = 1e30  # what frequencies of pairs that do not rotate are divided by


def _sliding(config: CheckpointConfig, known: Known) -> list[bool]:
    """Return for each layer whether its attention slides; the last layer always sees all."""
    if config.get("use_bidirectional_attention") == "all":
        raise UnsupportedError(f"{config.path}: attention to later tokens is not known here")
    layers = known["layers"]
    layout = shared.sliding_layers(config, known) or [(i + 1) % _PERIOD != 0 for i in range(layers)]
    return [*layout[:-1], False]


def _widths(config: CheckpointConfig, known: Known) -> list[int]:
    """Return the widths of feed-forwards, doubled in some layers that share keys and values."""
    width, layers = config.integer("intermediate_size"), known["layers"]
    double = config.flag("use_double_wide_mlp", False)
    own = layers - config.integer("num_kv_shared_layers", at_least=0, at_most=layers)
    return [width * (2 if double and i >= own else 1) for i in range(layers)]


def _of_full_layers(config: CheckpointConfig, known: Known, key: str, usual: str) -> int:
    """Return a field that full layers have a value of their own for: under a name of its own, or in
    `per_layer_config`, where transformers writes it."""
    full = known["sliding"].index(False)
    if isinstance(config.get("per_layer_config"), dict):
        own = config.part("per_layer_config")
        if isinstance(own.get(str(full)), dict):
            return own.part(str(full)).integer(key, config.integer(key), at_most=LARGEST_COUNT)
    return config.integer(usual, config.integer(key), at_most=LARGEST_COUNT)


def _head_dim(config: CheckpointConfig, known: Known) -> int:
    return _of_full_layers(config, known, "head_dim", "global_head_dim")


def _kv_heads(config: CheckpointConfig, known: Known) -> list[int]:
    sliding = config.integer("num_key_value_heads", at_most=LARGEST_COUNT)
    full = sliding
    if config.flag("attention_k_eq_v", False):
        full = _of_full_layers(config, known, "num_key_value_heads", "num_global_key_value_heads")
    return [sliding if slides else full for slides in known["sliding"]]


def _divisors(value: Any, known: Known) -> tuple[int, ...]:
    counts: tuple[int, ...] = integers(most=known["heads"])(value, known)
    for count in counts:
        if known["heads"] % count:
            raise UnfitError(f"divisors of the {known['heads']} heads", count)
    return counts


def _part_of(config: CheckpointConfig, kind: str) -> CheckpointConfig:
    own = config.get("rope_parameters")
    nested = isinstance(own, dict) and own.get(kind) is not None
    return (
        config.part("rope_parameters").part(kind) if nested else CheckpointConfig({}, config.path)
    )


def _theta(config: CheckpointConfig, known: Known) -> float:
    return _part_of(config, "full_attention").number("rope_theta", 1e6, within=ROPE_BASE)


def _sliding_theta(config: CheckpointConfig, known: Known) -> float:
    part = _part_of(config, "sliding_attention")
    part.must_be("rope_type", "default", "such a rotary scaling of windows is")
    return part.number("rope_theta", 1e4, within=ROPE_BASE)


def factors_of_full_layers(config: CheckpointConfig, known: Known) -> list[TensorData]:
    """Return the factors of full layers' pairs, [head_dim / 2], as GGUF's files have them."""
    part = _part_of(config, "full_attention")
    kind = part.text("rope_type", "proportional")
    if kind not in ("proportional", "default"):
        raise UnsupportedError(
            f"{config.path}: rotary scaling {quote(kind)} is not known here; "
            "known are default, proportional"
        )
    share = part.number("partial_rotary_factor", 0.25, within=(0.0, 1.0))
    share = 1.0 if kind == "default" else share
    pairs = known["head_dim"] // 2
    factors = np.full(pairs, _STILL)
    factors[: int(share * known["head_dim"] // 2)] = part.number("factor", 1.0, within=ROPE_FACTOR)
    return [float_tensor(rope.FACTORS, factors)]


class Gemma4Config(Struct, metaclass=NotedMeta, frozen=True, kw_only=True):
    layers: int = row(shared.LAYERS)
    context: int = row(shared.CONTEXT)
    width: int = row(shared.WIDTH)
    layer_width: int = row(  # of a token's embedding for one layer; 0: there is none
        FieldRow("embedding_length_per_layer_input", "hidden_size_per_layer_input", integer(0))
    )
    feed_forward: tuple[int, ...] = row(  # by layer
        replace(shared.FEED_FORWARD, checkpoint=_widths, check=integers())
    )
    heads: int = row(shared.HEADS)
    window: int = row(replace(shared.WINDOW, checkpoint="sliding_window", check=integer()))
    sliding: tuple[bool, ...] = row(FieldRow("attention.sliding_window_pattern", _sliding, flags))
    shared_caches: int = row(  # layers, the last ones, that read the cache of an earlier one
        FieldRow("attention.shared_kv_layers", "num_kv_shared_layers", caches_to_share, default=0)
    )
    kv_heads: tuple[int, ...] = row(FieldRow("attention.head_count_kv", _kv_heads, _divisors))
    head_dim: int = row(replace(shared.HEAD_DIM, checkpoint=_head_dim))  # of full layers
    sliding_head_dim: int = row(
        replace(
            shared.HEAD_DIM,
            gguf="attention.key_length_swa",
            checkpoint="head_dim",
            default=lambda known: known["head_dim"],
        )
    )
    eps: float = row(shared.EPS)
    theta: float = row(FieldRow("rope.freq_base", _theta, number(ROPE_BASE), default=1e6))
    sliding_theta: float = row(
        FieldRow("rope.freq_base_swa", _sliding_theta, number(ROPE_BASE), default=1e4)
    )
    softcap: float = row(  # of logits
        FieldRow(
            "final_logit_softcapping",
            "final_logit_softcapping",
            number(SOFTCAP, or_zero=True),
            default=0.0,
        )
    )
    vocabulary: int
    table_rows: int

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, int]:
        table = shared.size_of(weights, PER_LAYER_TABLE, path) if known["layer_width"] else (0,)
        rows = shared.size_of(weights, shared.EMBEDDING, path)[0]
        return {"vocabulary": rows, "table_rows": table[0]}

    @property
    def shape(self) -> ModelShape:
        """Return the shape, with the widest and most heads and groups of any layer."""
        return ModelShape(
            layers=self.layers,
            heads=self.heads,
            kv_heads=max(self.kv_heads),
            head_dim=max(self.head_dim, self.sliding_head_dim),
            width=self.width,
            feed_forward=max(self.feed_forward),
            vocabulary=self.vocabulary,
            trained_context=self.context,
            query_widths=self.head_dims,
        )

    def shape_at(self, layer: int) -> ModelShape:
        width = self.head_dims[layer]
        return replace(self.shape, head_dim=width, kv_heads=self.kv_heads[layer])

    @property
    def head_dims(self) -> tuple[int, ...]:
        return tuple(self.sliding_head_dim if one else self.head_dim for one in self.sliding)

    @property
    def q_width(self) -> tuple[int, ...]:
        return tuple(self.heads * width for width in self.head_dims)

    @property
    def kv_width(self) -> tuple[int, ...]:
        return tuple(
            count * width for count, width in zip(self.kv_heads, self.head_dims, strict=True)
        )

    @property
    def rotary_pairs(self) -> int:
        return self.head_dim // 2

    @property
    def layers_width(self) -> int:
        return self.layers * self.layer_width

    @property
    def table_layers(self) -> tuple[int, ...]:
        return tuple(range(self.layers))

    @property
    def own_caches(self) -> int:
        return self.layers - self.shared_caches
