"""Gemma 3 (text): norms before and behind attention and feed-forward, of queries and of keys, and
windows in five layers of six, which rotate by a base of their own
(https://arxiv.org/abs/2503.19786).

GGUF's norms multiply by their weights, a checkpoint's by one more.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT, MULTIPLIER, ROPE_BASE, SOFTCAP
from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    flags,
    integer,
    number,
    row,
)
from llm_lite.core.models.description.tensors import NameRow, of_layer
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_PERIOD = 6  # of layers; the last one sees all. For GGUF's files, which do not say it
_LAYERS_OF_27B = 62  # whose queries are scaled otherwise; GGUF's files do not say that either


def _every(known: Known, period: int = _PERIOD) -> tuple[bool, ...]:
    return tuple((layer + 1) % period != 0 for layer in range(known["layers"]))


def _sliding(config: CheckpointConfig, known: Known) -> Any:
    layout = shared.sliding_layers(config, {**known, "window": 1})  # kinds differ by theta too
    return layout or _every(known, config.integer("sliding_window_pattern", _PERIOD))


def _flags_or_period(value: Any, known: Known) -> tuple[bool, ...]:
    if type(value) is int:
        return _every(known, integer()(value, known))
    return flags(value, known)


def _scale(config: CheckpointConfig, known: Known) -> float:
    return float(config.number("query_pre_attn_scalar", 256, within=MULTIPLIER) ** -0.5)


def _scale_of_gguf(known: Known) -> float:
    largest = known["layers"] == _LAYERS_OF_27B
    width = known["width"] / known["heads"] if largest else known["head_dim"]
    return float(width**-0.5)


def _sliding_theta(config: CheckpointConfig, known: Known) -> float:
    own = config.get("rope_parameters")
    if isinstance(own, dict) and own.get("sliding_attention") is not None:
        part = config.part("rope_parameters").part("sliding_attention")
        rope.check_plain(part)
        return part.number("rope_theta", 10000.0, within=ROPE_BASE)
    return config.number("rope_local_base_freq", 10000.0, within=ROPE_BASE)


def cap(key: str, default: float) -> FieldRow:
    """Return the field of a cap by tanh; 0, or null in a config.json: none. GGUF and checkpoints
    name it alike."""

    def find(config: CheckpointConfig, known: Known) -> object:
        value = config.get(key)
        return 0.0 if value is None and config.has(key) else value

    return FieldRow(key, find, number(SOFTCAP, or_zero=True), default=default)


def window_or_none(config: CheckpointConfig, known: Known) -> object:
    """Return the window, 0 where it is null: there is none then."""
    key = "sliding_window"
    if config.get(key) is None:
        return 0 if config.has(key) else None
    return config.integer(key, at_least=0, at_most=LARGEST_CONTEXT)


class Gemma3Config(shared.DecoderConfig, frozen=True, kw_only=True):
    theta: float = row(replace(shared.THETA, default=1e6))
    window: int = row(
        FieldRow("attention.sliding_window", window_or_none, integer(0, LARGEST_CONTEXT))
    )
    sliding: tuple[bool, ...] = row(
        FieldRow("attention.sliding_window_pattern", _sliding, _flags_or_period, default=_every)
    )
    sliding_theta: float = row(
        FieldRow("rope.freq_base_swa", _sliding_theta, number(ROPE_BASE), default=1e4)
    )
    attention_scale: float = row(
        FieldRow("attention.scale", _scale, number(MULTIPLIER), default=_scale_of_gguf)
    )
    score_cap: float = row(cap("attn_logit_softcapping", 0.0))
    softcap: float = row(cap("final_logit_softcapping", 0.0))


def _layer(d: Decoder[Gemma3Config], x: Tensor, layer: int) -> Tensor:
    c = d.config
    x = attention_block(
        d,
        x,
        layer,
        post_norm="post_attention_norm",
        qk_norm=True,
        theta=c.sliding_theta if c.sliding[layer] else None,
        scale=c.attention_scale,
        softcap=c.score_cap,
    )
    return gated_block(d, x, layer, post_norm="post_ffw_norm", gelu=True)


def _scales(config: Gemma3Config) -> Scales:
    return Scales(embedding=math.sqrt(config.width), logit_cap=config.softcap)


def centred(rows: tuple[NameRow, ...]) -> tuple[NameRow, ...]:
    """Return the rows with 1 added to norms, as checkpoints store how much more than 1 they
    multiply by."""
    return tuple(replace(row, add=1.0) if len(row.shape) == 1 else row for row in rows)


TENSORS = (
    *centred(shared.MODEL_TENSORS),
    *shared.ROPE_TENSORS,
    *shared.ATTENTION,
    *shared.GATED,
    *centred(
        (
            shared.ATTENTION_NORM,
            shared.QUERY_NORM,
            shared.KEY_NORM,
            of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
            of_layer("ffn_norm.weight", "pre_feedforward_layernorm.weight", "width"),
            of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
        )
    ),
)

GEMMA_3 = Architecture(
    title="Gemma 3",
    gguf="gemma3",
    model_types=("gemma3_text", "gemma3"),
    config=Gemma3Config,
    tensors=TENSORS,
    graph=partial(decoder_plan, _layer, scales_of=_scales),
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("use_bidirectional_attention", False, "attention to later tokens is"),
    ),
    defaults={
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "rope_theta": 1000000.0,
        "sliding_window": 4096,
    },
    tied=True,
    modules={"embed_tokens": ("embedding.scaled",)},
)
