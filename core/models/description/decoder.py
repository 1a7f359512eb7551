"""The fields and tensors that decoders share; an architecture takes them, and adds or changes some.

Sources: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and gguf-py's constants for GGUF;
the configuration of each model type in https://huggingface.co/docs/transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import (
    EPSILON,
    LARGEST_CONTEXT,
    LARGEST_COUNT,
    ROPE_BASE,
    ROPE_FACTOR,
)
from llm_lite.core.models.description import pooling, rope
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    choice,
    flag,
    flags,
    integer,
    number,
    row,
)
from llm_lite.core.models.description.tensors import NameRow, bias_of, of_layer, of_model
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import FieldNotesMeta, replace

EMBEDDING = "token_embd.weight"
EMBEDDING_NORM = "token_embd_norm"  # the stem of its names
HEAD = "output.weight"
POSITIONS = "position_embd.weight"
# LayerNorm's weights and biases of models that have none, or some of them: 1 and 0.
NORM_SCALE, NORM_SHIFT = MADE + "norm_scale", MADE + "norm_shift"


def _groups(value: Any, known: Known) -> int:
    count: int = integer(most="heads")(value, known)
    if known["heads"] % count:
        raise UnfitError(f"a divisor of the {known['heads']} heads", value)
    return count


def _own_width(value: Any, known: Known) -> int:
    if value != known["head_dim"]:
        raise UnfitError(f"{known['head_dim']}, as wide as keys", value)
    return known["head_dim"]


def _share_of_width(known: Known) -> int:
    width, heads = known["width"], known["heads"]
    if width % heads:
        raise UnfitError(f"a divisor of the width, {width}", heads, "heads")
    if width // heads % 2:
        raise UnfitError(f"heads of an even width, in a width of {width}", heads, "heads")
    return width // heads


def _rotary_part(config: CheckpointConfig, known: Known) -> int | None:
    holder = config.rope()[0]
    holder = holder if holder.get("partial_rotary_factor") is not None else config
    if holder.get("partial_rotary_factor") is None:
        return None
    return int(known["head_dim"] * holder.number("partial_rotary_factor", within=(1e-3, 1.0)))


def _window(config: CheckpointConfig, known: Known) -> int | None:
    """Return the window in positions; None if attention sees the whole context."""
    if config.get("sliding_window") is None or not config.flag("use_sliding_window", True):
        return None
    window = config.integer("sliding_window", at_most=LARGEST_CONTEXT)
    return window if window < known["context"] else None


def layers_of_kind(
    config: CheckpointConfig, known: Known, one: str, other: str
) -> list[bool] | None:
    """Return for each layer whether it is of the kind `one` rather than `other`, None if the config
    does not say it."""
    if config.get("layer_types") is None:
        return None
    kinds = config.list_of("layer_types", (str,), known["layers"])
    for kind in kinds:
        if kind not in (one, other):
            raise UnsupportedError(
                f"{config.path}: layer_types has {quote(kind)}; known are {one} and {other}"
            )
    return [kind == one for kind in kinds]


def sliding_layers(config: CheckpointConfig, known: Known) -> list[bool] | None:
    """Return for each layer whether its attention slides, None if the config does not say it."""
    layers = known["layers"]
    slide = layers_of_kind(config, known, "sliding_attention", "full_attention")
    if slide is not None:
        return slide if known["window"] else None
    if known["window"] and config.get("max_window_layers") is not None:
        first = config.integer("max_window_layers", at_least=0)
        return [layer >= first for layer in range(layers)]
    return None


def _factor(value: Any, known: Known) -> float:
    """Return the factor; 0 is none (llama.cpp)."""
    return number(ROPE_FACTOR, or_zero=True)(value, known) or 1.0


LAYERS = FieldRow("block_count", "num_hidden_layers", integer(most=LARGEST_COUNT))
CONTEXT = FieldRow(
    "context_length", "max_position_embeddings", integer(most=LARGEST_CONTEXT), assumed=2048
)
WIDTH = FieldRow("embedding_length", "hidden_size", integer())
FEED_FORWARD = FieldRow("feed_forward_length", "intermediate_size", integer())
HEADS = FieldRow("attention.head_count", "num_attention_heads", integer(most=LARGEST_COUNT))
KV_HEADS = FieldRow(
    "attention.head_count_kv",
    "num_key_value_heads",
    _groups,
    default=lambda known: known["heads"],
    assumed=lambda known: known["heads"],
)
EPS = FieldRow("attention.layer_norm_rms_epsilon", "rms_norm_eps", number(EPSILON), assumed=1e-6)
LAYER_NORM_EPS = FieldRow(  # of models whose norms are LayerNorm
    "attention.layer_norm_epsilon", "layer_norm_epsilon", number(EPSILON), default=1e-5
)
# How values of a head pair up in rotary positions. Checkpoints always split heads in halves.
PAIRING = FieldRow("rope.pairing", None, choice("interleaved", "half_split"), default="half_split")
PAIRING_OF_NEIGHBOURS = replace(PAIRING, default="interleaved")
PAIRING_OF_LLAMA = replace(PAIRING, default="interleaved", assumed="half_split")
HEAD_DIM = FieldRow(
    "attention.key_length", "head_dim", integer(2, LARGEST_COUNT, even=True), _share_of_width
)
VALUE_DIM = FieldRow(
    "attention.value_length", None, _own_width, default=lambda known: known["head_dim"]
)
ROTARY_DIM = FieldRow(
    "rope.dimension_count",
    _rotary_part,
    integer(2, "head_dim", even=True),
    default=lambda known: known["head_dim"],
)
THETA = FieldRow("rope.freq_base", rope.base, number(ROPE_BASE), default=10000.0)
# A factor without a type is linear (llama.cpp's `load_hparams`).
SCALING = FieldRow("rope.scaling.type", rope.scaling, choice(*rope.SCALINGS), default="linear")
SCALING_FACTOR = FieldRow(
    "rope.scaling.factor",
    rope.factor,
    _factor,
    default=1.0,
    older="rope.scale_linear",
)
ORIGINAL_CONTEXT = FieldRow(
    "rope.scaling.original_context_length",
    rope.original_context,
    integer(most=LARGEST_CONTEXT),
    default=lambda known: known["context"],
)
ATTENTION_FACTOR = FieldRow(
    "rope.scaling.attn_factor", rope.attention_factor, number(ROPE_FACTOR), default=1.0
)
BETA_FAST = FieldRow(
    "rope.scaling.yarn_beta_fast", rope.beta("beta_fast"), number(ROPE_FACTOR), default=32.0
)
BETA_SLOW = FieldRow(
    "rope.scaling.yarn_beta_slow", rope.beta("beta_slow"), number(ROPE_FACTOR), default=1.0
)
YARN_WEIGHT = FieldRow(
    "rope.scaling.yarn_log_multiplier", None, number(ROPE_FACTOR, or_zero=True), default=0.0
)
# Whether YaRN's ramp begins and ends at whole pairs of values; a key of our own.
WHOLE_PAIRS = FieldRow("rope.scaling.yarn_truncate", rope.whole_pairs, flag, default=True)
WINDOW = FieldRow("attention.sliding_window", _window, integer(0, most=LARGEST_CONTEXT), default=0)
SLIDING = FieldRow(
    "attention.sliding_window_pattern",
    sliding_layers,
    flags,
    default=lambda known: (known["window"] > 0,) * known["layers"],
)


def three_in_four(known: Known) -> tuple[bool, ...]:
    """Return for each layer whether it slides where three of four do, and the last of these sees
    all."""
    return tuple(known["window"] > 0 and (i + 1) % 4 != 0 for i in range(known["layers"]))


def _sliding_three_in_four(config: CheckpointConfig, known: Known) -> list[bool] | None:
    usual = list(three_in_four(known)) if known["window"] else None
    return sliding_layers(config, known) or usual


# Of models whose layers have a window but for every fourth.
WINDOW_OF_THREE_IN_FOUR = replace(
    WINDOW, checkpoint="sliding_window", check=integer(0, LARGEST_CONTEXT)
)
SLIDING_THREE_IN_FOUR = replace(SLIDING, checkpoint=_sliding_three_in_four, default=three_in_four)


class DecoderConfig(
    pooling.PooledConfig, Struct, metaclass=FieldNotesMeta, frozen=True, kw_only=True
):
    """The fields of most decoders. `vocabulary` is the number of rows of the embedding."""

    layers: int = row(LAYERS)
    context: int = row(CONTEXT)
    width: int = row(WIDTH)
    feed_forward: int = row(FEED_FORWARD)
    heads: int = row(HEADS)
    kv_heads: int = row(KV_HEADS)
    eps: float = row(EPS)
    pairing: str = row(PAIRING)
    head_dim: int = row(HEAD_DIM)
    value_dim: int = row(VALUE_DIM)
    rotary_dim: int = row(ROTARY_DIM)
    theta: float = row(THETA)
    scaling: str = row(SCALING)
    scaling_factor: float = row(SCALING_FACTOR)
    original_context: int = row(ORIGINAL_CONTEXT)
    attention_factor: float = row(ATTENTION_FACTOR)
    beta_fast: float = row(BETA_FAST)
    beta_slow: float = row(BETA_SLOW)
    yarn_weight: float = row(YARN_WEIGHT)
    whole_pairs: bool = row(WHOLE_PAIRS)
    window: int = row(WINDOW)  # positions that a sliding layer sees; 0: all
    sliding: tuple[bool, ...] = row(SLIDING)
    causal: bool = row(pooling.CAUSAL)  # a token sees none behind it
    poolings: tuple[str, ...] = row(pooling.POOLINGS_ROW)
    unit_length: bool = row(pooling.UNIT_LENGTH)
    most_tokens: int = row(pooling.MOST_TOKENS)
    dense_widths: tuple[int, ...] = row(pooling.DENSE_WIDTHS)
    dense_activations: tuple[str, ...] = row(pooling.DENSE_ACTIVATIONS)
    prompts: tuple[tuple[str, str], ...] = row(pooling.PROMPTS)
    reads_prompt: bool = row(pooling.READS_PROMPT)
    vocabulary: int
    long_factors: bool = False  # rotary positions differ in contexts longer than the original

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        """Return the fields that tensors determine. FileError if these are not there."""
        is_long = rope.LONG in weights and known["original_context"] < known["context"]
        return {"vocabulary": size_of(weights, EMBEDDING, path)[0], "long_factors": is_long}

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def rotary_pairs(self) -> int:
        return self.rotary_dim // 2

    @property
    def post_norm_eps(self) -> float:
        """Return what norms behind attention and feed-forward add to a mean square."""
        return self.eps

    @property
    def shape(self) -> ModelShape:
        return ModelShape(
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            width=self.width,
            feed_forward=self.feed_forward,
            vocabulary=self.vocabulary,
            trained_context=self.context,
            short_context=self.original_context if self.long_factors else 0,
        )

    @property
    def rotary_magnitude(self) -> float:
        """Return the factor of rotated queries and keys."""
        if self.scaling != "yarn":
            return self.attention_factor
        weighed = rope.yarn_magnitude(self.scaling_factor, self.yarn_weight)
        return self.attention_factor * rope.yarn_magnitude(self.scaling_factor) / weighed


class UnscaledConfig(DecoderConfig, frozen=True, kw_only=True):
    """The fields of decoders whose config.json says nothing of rotary scalings as others have
    them."""

    scaling: str = row(replace(SCALING, checkpoint=None))
    scaling_factor: float = row(replace(SCALING_FACTOR, checkpoint=None))
    original_context: int = row(replace(ORIGINAL_CONTEXT, checkpoint=None))
    attention_factor: float = row(replace(ATTENTION_FACTOR, checkpoint=None))
    beta_fast: float = row(replace(BETA_FAST, checkpoint=None))
    beta_slow: float = row(replace(BETA_SLOW, checkpoint=None))
    whole_pairs: bool = row(replace(WHOLE_PAIRS, checkpoint=None))


def plain_norms(config: DecoderConfig, tensors: Mapping[str, TensorData]) -> list[TensorData]:
    """Return what LayerNorm without weights and without biases multiplies by and adds."""
    width = config.width
    return [float_tensor(NORM_SCALE, np.ones(width)), float_tensor(NORM_SHIFT, np.zeros(width))]


def size_of(weights: Mapping[str, WeightSpec], name: str, path: Path) -> tuple[int, ...]:
    if name not in weights or not weights[name].shape:
        raise FileError(path, f"tensor {name} is missing")
    return weights[name].shape


OUTPUT_NORM = of_model("output_norm.weight", "norm.weight", "width")
MODEL_TENSORS = (
    of_model(EMBEDDING, "embed_tokens.weight", "vocabulary", "width"),
    OUTPUT_NORM,
    of_model(HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
)
PLAIN_NORMS = (of_model(NORM_SCALE, None, "width"), of_model(NORM_SHIFT, None, "width"))
ROPE_TENSORS = (
    of_model(rope.FACTORS, None, "rotary_pairs", optional=lambda c, _: c.scaling != "yarn"),
    of_model(rope.LONG, None, "rotary_pairs", optional=lambda c, _: c.scaling != "longrope"),
    of_model(rope.SHORT, None, "rotary_pairs", optional=lambda c, _: c.scaling != "longrope"),
    of_model(rope.MAGNITUDE, None, "q_width", optional=lambda c, _: not rope.scales_part(c)),
)
ATTENTION_NORM = of_layer("attn_norm.weight", "input_layernorm.weight", "width")
QUERY = of_layer("attn_q.weight", "self_attn.q_proj.weight", "q_width", "width")
KEY = of_layer("attn_k.weight", "self_attn.k_proj.weight", "kv_width", "width")
VALUE = of_layer("attn_v.weight", "self_attn.v_proj.weight", "kv_width", "width")
ATTENTION_OUTPUT = of_layer("attn_output.weight", "self_attn.o_proj.weight", "width", "q_width")
ATTENTION = (QUERY, KEY, VALUE, ATTENTION_OUTPUT)
ATTENTION_BIASES = (bias_of(QUERY), bias_of(KEY), bias_of(VALUE))
FEED_FORWARD_NORM = of_layer("ffn_norm.weight", "post_attention_layernorm.weight", "width")
GATE = of_layer("ffn_gate.weight", "mlp.gate_proj.weight", "feed_forward", "width")
UP = of_layer("ffn_up.weight", "mlp.up_proj.weight", "feed_forward", "width")
DOWN = of_layer("ffn_down.weight", "mlp.down_proj.weight", "width", "feed_forward")
GATED = (GATE, UP, DOWN)
QUERY_NORM = of_layer("attn_q_norm.weight", "self_attn.q_norm.weight", "head_dim")
KEY_NORM = of_layer("attn_k_norm.weight", "self_attn.k_norm.weight", "head_dim")
DECODER_TENSORS: tuple[NameRow, ...] = (
    *MODEL_TENSORS,
    *ROPE_TENSORS,
    *(ATTENTION_NORM, *ATTENTION, FEED_FORWARD_NORM, *GATED),
)
