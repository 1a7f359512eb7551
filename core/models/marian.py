"""The first Transformer (Vaswani et al. 2017), as Marian's translation models still are: an encoder
and a decoder with norms behind each sublayer, biases, and sines for positions.

One embedding serves the source, the target and the head. Of a position's row the first half are
sines and the second cosines, of falling frequency.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import EPSILON, LARGEST_COUNT, LARGEST_WIDTH
from llm_lite.core.models import blocks
from llm_lite.core.models.blocks import Decoder
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import encoder_decoder as stacks
from llm_lite.core.models.description.architecture import Architecture, Tensors
from llm_lite.core.models.description.encoder_decoder import EncoderDecoderConfig, of_stack
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    choice,
    flag,
    integer,
    number,
    row,
)
from llm_lite.core.models.description.tensors import NameRow, of_model
from llm_lite.core.models.encoder_decoder_plans import Sublayers, decoder_plan, encoder_plan
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace

_SINES, LOGITS_BIAS = MADE + "positions", "output.bias"
_MOST_POSITIONS = 1 << 14  # each is a row of a table; Marian's models have 512 or 1024
_ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu"}


def _feed_forward_width(config: CheckpointConfig, known: Known) -> int:
    return _alike(config, "encoder_ffn_dim", "decoder_ffn_dim")


def _heads(config: CheckpointConfig, known: Known) -> int:
    return _alike(config, "encoder_attention_heads", "decoder_attention_heads")


def _alike(config: CheckpointConfig, encoder: str, decoder: str) -> int:
    value = config.integer(encoder, at_most=LARGEST_WIDTH)
    if config.integer(decoder, at_most=LARGEST_WIDTH) != value:
        raise UnsupportedError(
            f"{config.path}: {encoder} is {value} and {decoder} "
            f"{config.get(decoder)}; known are stacks of equal widths"
        )
    return value


def _divisor(value: Any, known: Known) -> int:
    count: int = integer(most=LARGEST_COUNT)(value, known)
    if known["width"] % count:
        raise UnfitError(f"a divisor of the width, {known['width']}", value)
    return count


def _activation(config: CheckpointConfig, known: Known) -> str:
    name = config.text("activation_function", "gelu")
    return _ACTIVATIONS.get(name, name)


class MarianConfig(EncoderDecoderConfig, frozen=True, kw_only=True):
    encoder_layers: int = row(replace(shared.LAYERS, checkpoint="encoder_layers"))
    context: int = row(replace(shared.CONTEXT, check=integer(most=_MOST_POSITIONS)))
    width: int = row(replace(shared.WIDTH, checkpoint="d_model"))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_feed_forward_width))
    heads: int = row(replace(shared.HEADS, checkpoint=_heads, check=_divisor))
    eps: float = row(FieldRow("attention.layer_norm_epsilon", None, number(EPSILON), default=1e-5))
    start: int = row(replace(stacks.START, checkpoint="decoder_start_token_id"))
    activation: str = row(
        FieldRow("feed_forward_activation", _activation, choice("relu", "silu", "gelu"))
    )
    scales_embedding: bool = row(
        FieldRow("scale_embedding", "scale_embedding", flag, default=False)
    )


def sines(positions: int, width: int) -> np.ndarray:
    """float32 [positions, width] (Vaswani et al. 2017, section 3.5)."""
    angles = np.arange(positions)[:, None] / 10000 ** (2 * (np.arange(width) // 2) / width)
    return np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], axis=1, dtype="f4")


def _positions(config: MarianConfig, tensors: Tensors) -> list[TensorData]:
    return [float_tensor(_SINES, sines(config.context, config.width))]


def _embedded(d: Decoder[MarianConfig], stack: str) -> Tensor:
    b = d.b
    x = b.embed(b.weight(shared.EMBEDDING), "embedding")
    if d.config.scales_embedding:
        x = b.scale(x, "embedding.scaled", factor=d.config.width**0.5)
    return b.add(x, b.position_rows(b.weight(_SINES), "positions"), "embedding.placed")


def _normed(d: Decoder[MarianConfig], x: Tensor, y: Tensor, weight: str, at: str) -> Tensor:
    """Return norm(x + y)."""
    return d.norm(d.residual(x, y, at, 1.0), weight, at + ".norm")


def self_attention(
    d: Decoder[MarianConfig], shape: ModelShape, x: Tensor, stack: str, layer: int
) -> Tensor:
    at, w = f"layers.{layer}.attention", f"{stack}.blk.{layer}.attn_"
    q, k, v = (d.linear(x, w + one, f"{at}.{one}") for one in "qkv")
    y = blocks.cached_attention(
        d.b, shape, d.options, q, (k, v), at, layer=layer, bidirectional=stack == "enc"
    )
    return _normed(d, x, d.linear(y, w + "o", at + ".output"), w + "norm", at)


def cross_attention(d: Decoder[MarianConfig], x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.cross_attention", f"dec.blk.{layer}.cross_attn_"
    q = d.linear(x, w + "q", at + ".q")
    y = blocks.cross_attention(d.b, d.config.shape, d.options, q, at, layer=layer)
    return _normed(d, x, d.linear(y, w + "o", at + ".output"), w + "norm", at)


def feed_forward(d: Decoder[MarianConfig], x: Tensor, stack: str, layer: int) -> Tensor:
    at, w = f"layers.{layer}.feed_forward", f"{stack}.blk.{layer}.ffn_"
    activations = {"relu": d.b.relu, "silu": d.b.silu, "gelu": d.b.gelu_erf}
    name = d.config.activation
    h = activations[name](d.linear(x, w + "up", at + ".up"), f"{at}.{name}")
    return _normed(d, x, d.linear(h, w + "down", at + ".down"), w + "norm", at)


def logits(d: Decoder[MarianConfig], x: Tensor) -> Tensor:
    y = blocks.through_head(d.b, x)
    return d.b.add_bias(y, d.b.weight(LOGITS_BIAS), "logits.biased") if d.b.has(LOGITS_BIAS) else y


SUBLAYERS = Sublayers(
    embedded=_embedded,
    self_attention=self_attention,
    cross_attention=cross_attention,
    feed_forward=feed_forward,
    encoded=lambda d, x: x,  # its last layer ends with a norm
    logits=logits,
)


def _both(stack: str, gguf: str, checkpoint: str, *shape: str) -> tuple[NameRow, NameRow]:
    """Return the rows of a matrix (or a norm) and its bias."""
    at = f"{stack}.layers.{{i}}.{checkpoint}"
    return (
        of_stack(stack, gguf + ".weight", at + ".weight", *shape),
        of_stack(stack, gguf + ".bias", at + ".bias", shape[0]),
    )


def _attention_rows(stack: str, gguf: str, checkpoint: str) -> tuple[NameRow, ...]:
    def matrix(one: str, projection: str) -> tuple[NameRow, NameRow]:
        return _both(stack, f"{gguf}_{one}", f"{checkpoint}.{projection}", "width", "width")

    return (
        *matrix("q", "q_proj"),
        *matrix("k", "k_proj"),
        *matrix("v", "v_proj"),
        *matrix("o", "out_proj"),
        *_both(stack, f"{gguf}_norm", f"{checkpoint}_layer_norm", "width"),
    )


def stack_rows(stack: str) -> tuple[NameRow, ...]:
    cross = _attention_rows(stack, "cross_attn", "encoder_attn") if stack == "decoder" else ()
    return (
        *_attention_rows(stack, "attn", "self_attn"),
        *cross,
        *_both(stack, "ffn_up", "fc1", "feed_forward", "width"),
        *_both(stack, "ffn_down", "fc2", "width", "feed_forward"),
        *_both(stack, "ffn_norm", "final_layer_norm", "width"),
    )


MARIAN = Architecture(
    title="Marian",
    gguf="marian",
    model_types=("marian",),
    config=MarianConfig,
    tensors=(
        of_model(shared.EMBEDDING, "shared.weight", "vocabulary", "width"),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        of_model(_SINES, None, "context", "width"),
        replace(of_model(LOGITS_BIAS, "final_logits_bias", "vocabulary"), flat=True),
        *stack_rows("encoder"),
        *stack_rows("decoder"),
    ),
    graph=partial(decoder_plan, SUBLAYERS),
    encoder_graph=partial(encoder_plan, SUBLAYERS),
    unused=("embed_positions.weight",),
    derived=_positions,
    must_be=(
        ("share_encoder_decoder_embeddings", True, "vocabularies of source and target apart are"),
        ("static_position_embeddings", True, "learned positions are"),
    ),
    tied=True,
    defaults={"max_position_embeddings": 1024},
    copies=stacks.COPIES,
    modules={
        "shared": (),  # each stack has a module of its own
        "encoder.embed_tokens": ("embedding",),
        "encoder.embed_positions": ("positions",),
        "decoder.embed_tokens": ("embedding",),
        "decoder.embed_positions": ("positions",),
    },
)
