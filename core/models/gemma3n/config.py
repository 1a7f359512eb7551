"""The fields of Gemma 3n, under GGUF's keys and those of transformers' checkpoints.

Names: `MODEL_TENSORS` of GEMMA3N in https://github.com/ggml-org/llama.cpp gguf-py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import (
    DEVIATIONS,
    LARGEST_WIDTH,
    ROPE_BASE,
    SOFTCAP,
)
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flag,
    flags,
    integer,
    integers,
    number,
    numbers_or_none,
    row,
)
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.records import FieldNotesMeta, replace

PER_LAYER_TABLE = "per_layer_token_embd.weight"
LAUREL = "blk.0.laurel_l.weight"
TABLE_LAYERS = "table_layers"  # a key of our own: of a view of a larger model
# Those of E4B, where a config.json leaves fields out.
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "num_hidden_layers": 35,
        "max_position_embeddings": 32768,
        "hidden_size": 2048,
        "hidden_size_per_layer_input": 256,
        "intermediate_size": 16384,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "sliding_window": 512,
        "num_kv_shared_layers": 15,
        "altup_num_inputs": 4,
        "altup_active_idx": 0,
        "altup_correct_scale": True,
    }
)
_KINDS = ("full_attention", "sliding_attention")


def _pattern(config: CheckpointConfig, known: Known) -> list[bool]:
    """Return for each layer whether its attention slides; every fifth sees all unless the config
    says otherwise."""
    layout = shared.sliding_layers(config, {**known, "window": 1})
    return layout or [(i + 1) % 5 != 0 for i in range(known["layers"])]


def _sparsity(config: CheckpointConfig, known: Known) -> list[float]:
    """Return shares of zeros as standard deviations above the mean; -inf: nothing is cut off."""
    layers, value = known["layers"], config.get("activation_sparsity_pattern")
    if value is None:
        sparse = 10 if layers > 10 else 0
        shares = [0.95] * sparse + [0.0] * (layers - sparse)
    elif isinstance(value, list):
        shares = config.list_of("activation_sparsity_pattern", (int, float), layers)
    else:
        shares = [config.number("activation_sparsity_pattern", within=(0.0, 1.0))] * layers
    for share in shares:
        if not 0 <= share < 1:
            problem = f"activation_sparsity_pattern has {found(share)}, expected 0 to less than 1"
            raise FileError(config.path, problem)
    return [NormalDist().inv_cdf(share) if share else -math.inf for share in shares]


def thetas(config: CheckpointConfig) -> tuple[float, float]:
    """Return the rotary bases of full and sliding attention, from newer or older configs."""
    bases = [
        config.number("rope_theta", 1e6, within=ROPE_BASE),
        config.number("rope_local_base_freq", 1e4, within=ROPE_BASE),
    ]
    value = config.get("rope_parameters")
    nested = isinstance(value, dict) and not set(_KINDS).isdisjoint(value)
    for i, kind in enumerate(_KINDS):
        part = config.part("rope_parameters").part(kind) if nested else config.rope()[0]
        if nested:
            bases[i] = part.number("rope_theta", bases[i], within=ROPE_BASE)
        if not rope.is_plain(part):
            rope_type = part.text("rope_type", part.text("type", "default"))
            raise UnsupportedError(
                f"{config.path}: rotary scaling {quote(rope_type)} of {kind} is not known here; "
                "known is default"
            )
    return bases[0], bases[1]


def _softcap(config: CheckpointConfig, known: Known) -> float:
    if config.has("final_logit_softcapping") and not config.get("final_logit_softcapping"):
        return 0.0
    return config.number("final_logit_softcapping", 30.0, within=SOFTCAP)


def caches_to_share(value: Any, known: Known) -> int:
    """Return how many layers have no keys and values of their own: of each kind there is one to
    share with."""
    sliding, layers = known["sliding"], known["layers"]
    count: int = integer(0, layers - 1)(value, known)
    own = layers - count
    if not set(sliding[own:]) <= set(sliding[:own]):
        problem = f"fewer: among the first {own} of {layers} layers there is none of each kind of "
        raise UnfitError(problem + "attention to share keys and values with", value)
    return count


def owner_of(layer: int, sliding: tuple[bool, ...], own_caches: int) -> int:
    """Return the layer whose keys and values this one reads: the last of its kind with own."""
    if layer < own_caches:
        return layer
    return max(i for i in range(own_caches) if sliding[i] == sliding[layer])


class Gemma3nConfig(Struct, metaclass=FieldNotesMeta, frozen=True, kw_only=True):
    layers: int = row(shared.LAYERS)
    context: int = row(shared.CONTEXT)
    width: int = row(shared.WIDTH)
    layer_width: int = row(  # of a token's embedding for one layer
        FieldRow("embedding_length_per_layer_input", "hidden_size_per_layer_input", integer())
    )
    feed_forward: tuple[int, ...] = row(replace(shared.FEED_FORWARD, check=integers()))  # by layer
    heads: int = row(shared.HEADS)
    kv_heads: int = row(shared.KV_HEADS)
    head_dim: int = row(shared.HEAD_DIM)
    value_dim: int = row(replace(shared.VALUE_DIM, checkpoint="head_dim"))
    eps: float = row(shared.EPS)
    window: int = row(  # positions that a sliding layer sees
        FieldRow("attention.sliding_window", "sliding_window", integer(most=LARGEST_WIDTH))
    )
    sliding: tuple[bool, ...] = row(  # by layer
        FieldRow("attention.sliding_window_pattern", _pattern, flags)
    )
    shared_caches: int = row(  # layers, the last ones, that read the cache of an earlier one
        FieldRow("attention.shared_kv_layers", "num_kv_shared_layers", caches_to_share, default=0)
    )
    sparsity: tuple[float, ...] = row(  # by layer, in standard deviations; -inf: dense
        FieldRow(
            "activation_sparsity_scale",
            _sparsity,
            numbers_or_none(DEVIATIONS),
            default=lambda known: (-math.inf,) * known["layers"],
        )
    )
    streams: int = row(FieldRow("altup.num_inputs", "altup_num_inputs", integer(2, 16)))
    active: int = row(  # the stream that layers work on
        FieldRow(
            "altup.active_idx",
            "altup_active_idx",
            lambda value, known: integer(0, known["streams"] - 1)(value, known),
            default=0,
        )
    )
    correct_scale: bool = row(
        FieldRow("altup.correct_scale", "altup_correct_scale", flag, default=True)
    )
    theta: float = row(  # rotary base of full layers
        FieldRow(
            "rope.freq_base", lambda config, _: thetas(config)[0], number(ROPE_BASE), default=1e6
        )
    )
    sliding_theta: float = row(
        FieldRow(
            "rope.freq_base_swa",
            lambda config, _: thetas(config)[1],
            number(ROPE_BASE),
            default=1e4,
        )
    )
    softcap: float = row(  # of logits
        FieldRow("final_logit_softcapping", _softcap, number(SOFTCAP, or_zero=True), default=30.0)
    )
    picked: tuple[int, ...] = row(FieldRow(TABLE_LAYERS, None, integers(least=0), default=()))
    vocabulary: int
    table_rows: int
    table_columns: int
    laurel_rank: int

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, int]:
        """Return the fields that only tensors determine. FileError if a tensor is not there, or the
        table too narrow."""
        sizes = [shared.size_of(weights, n, path) for n in (shared.EMBEDDING, LAUREL)]
        table = shared.size_of(weights, PER_LAYER_TABLE, path)
        picked, n = known["picked"], known["layer_width"]
        columns = table[-1] if picked else known["layers"] * n
        if picked and (max(picked) + 1) * n > columns:
            problem = f"layer {max(picked)} is not in {columns} columns"
            raise FileError(path, f"gemma3n.{TABLE_LAYERS}: {problem}")
        return {
            "vocabulary": sizes[0][0],
            "laurel_rank": sizes[1][0],
            "table_rows": table[0],
            "table_columns": columns,
        }

    @property
    def shape(self) -> ModelShape:
        return ModelShape(
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            width=self.width,
            feed_forward=max(self.feed_forward),
            vocabulary=self.vocabulary,
            trained_context=self.context,
        )

    @property
    def table_layers(self) -> tuple[int, ...]:
        """Return, by layer, which part of a row of the table is its embedding: a view of a larger
        model names them; else the table has the model's layers in order."""
        return self.picked or tuple(range(self.layers))

    @property
    def own_caches(self) -> int:
        """Return from which layer on layers read the cache of an earlier one."""
        return self.layers - self.shared_caches

    def cache_of(self, layer: int) -> int:
        """Return the layer whose keys and values this one reads."""
        return owner_of(layer, self.sliding, self.own_caches)

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def layers_width(self) -> int:
        return self.layers * self.layer_width

    @property
    def more_streams(self) -> int:
        return self.streams - 1

    @property
    def coefficients(self) -> int:
        return self.streams**2
