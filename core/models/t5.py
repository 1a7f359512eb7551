"""T5 (Raffel et al. 2020), mT5 and Flan-T5: an encoder and a decoder with RMSNorm and no biases.

Positions are learned scores by distance, in buckets that widen with it, which the first layer of a
stack holds for all of them. Scores are not scaled by the width of a head. Later versions have gated
feed-forwards (Shazeer 2020) and a head of their own; where the embedding is the head, the decoder's
output is scaled by 1 / sqrt(width).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT
from llm_lite.core.models import blocks
from llm_lite.core.models.blocks import Decoder
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import encoder_decoder as stacks
from llm_lite.core.models.description.architecture import Architecture, Tensors, Weights
from llm_lite.core.models.description.encoder_decoder import EncoderDecoderConfig, of_stack
from llm_lite.core.models.description.modules import Own
from llm_lite.core.models.description.rows import FieldRow, Known, flag, integer, row
from llm_lite.core.models.description.tensors import NameRow, of_model
from llm_lite.core.models.encoder_decoder_plans import Sublayers, decoder_plan, encoder_plan
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace

_BUCKETS, _BIAS = "attn_rel_b.weight", MADE + "{stack}.position_bias"
_FEED_FORWARDS = ("relu", "gated-gelu")


def _known_feed_forward(config: CheckpointConfig, known: Known) -> int | None:
    kind = config.text("feed_forward_proj", "relu")
    if kind not in _FEED_FORWARDS:
        raise UnsupportedError(
            f"{config.path}: feed_forward_proj is {quote(kind)}; "
            f"known are {' and '.join(_FEED_FORWARDS)}"
        )
    return config.integer("d_ff")


def _distance(value: Any, known: Known) -> int:
    """Check a distance that is farther than the first half of the decoder's buckets, which are of
    one distance each."""
    least = known["buckets"] // 2 + 1
    return integer(least, 1 << 16)(value, known)


def _scales_output(config: CheckpointConfig, known: Known) -> bool:
    """Return True if the output is scaled: files of transformers 5 have a flag, those of earlier
    versions what they tie."""
    if config.text("model_type") != "t5":
        return False
    return config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", True))


class T5Config(EncoderDecoderConfig, frozen=True, kw_only=True):
    encoder_layers: int = row(replace(shared.LAYERS, checkpoint="num_layers"))
    decoder_layers: int = row(replace(stacks.DECODER_LAYERS, checkpoint="num_decoder_layers"))
    context: int = row(replace(shared.CONTEXT, checkpoint="n_positions", assumed=512))
    width: int = row(replace(shared.WIDTH, checkpoint="d_model"))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_known_feed_forward))
    heads: int = row(replace(shared.HEADS, checkpoint="num_heads"))
    head_size: int = row(FieldRow("attention.key_length", "d_kv", integer(2, LARGEST_COUNT)))
    eps: float = row(replace(shared.EPS, checkpoint="layer_norm_epsilon"))
    buckets: int = row(
        FieldRow(
            "attention.relative_buckets_count",
            "relative_attention_num_buckets",
            integer(4, LARGEST_COUNT, even=True),
            assumed=32,
        )
    )
    distance: int = row(  # from which on all distances share a bucket
        FieldRow(
            "attention.relative_max_distance",
            "relative_attention_max_distance",
            _distance,
            default=128,
        )
    )

    # Whether the decoder's output is scaled; None: where it has no head of its own.
    scales_output: bool | None = row(
        FieldRow("scale_decoder_outputs", _scales_output, flag, default=None)
    )

    @property
    def head_dim(self) -> int:
        return self.head_size

    @property
    def causal_columns(self) -> int:
        return self.distance + 1

    @property
    def columns(self) -> int:
        return 2 * self.distance + 1


def bucket_of(
    distances: NDArray[np.int64], config: T5Config, *, both_sides: bool
) -> NDArray[np.int64]:
    """[N] key's position - query's -> [N] bucket: exact up to half of the buckets of a side, then
    by logarithm up to `distance` (Raffel et al. 2020, section 2.1)."""
    count = config.buckets // 2 if both_sides else config.buckets
    apart = np.abs(distances) if both_sides else np.maximum(-distances, 0)
    exact = count // 2
    ratio = np.log(np.maximum(apart, 1) / exact) / np.log(config.distance / exact)
    far = np.minimum(exact + (ratio * (count - exact)).astype(np.int64), count - 1)
    bucket = np.where(apart < exact, apart, far)
    return bucket + count * (distances > 0) if both_sides else bucket


def _position_biases(config: T5Config, tensors: Tensors) -> list[TensorData]:
    """[heads, columns] of each stack, by distance."""
    made = []
    for stack, columns in (("enc", config.columns), ("dec", config.causal_columns)):
        table = tensors.get(f"{stack}.blk.0.{_BUCKETS}")
        if table is None:
            continue  # the check of tensors names it
        distances = np.arange(columns) - config.distance
        buckets = bucket_of(distances, config, both_sides=stack == "enc")
        values = table.dequantize()[buckets].T
        made.append(float_tensor(_BIAS.format(stack=stack), np.ascontiguousarray(values)))
    return made


def _bias(b: PlanBuilder, stack: str, config: T5Config) -> tuple[Tensor, int]:
    return b.weight(_BIAS.format(stack=stack)), config.distance


def _self_attention(
    d: Decoder[T5Config], shape: ModelShape, x: Tensor, stack: str, layer: int
) -> Tensor:
    at, w = f"layers.{layer}.attention", f"{stack}.blk.{layer}.attn_"
    h = d.norm(x, w + "norm", at + ".norm")
    q, k, v = (d.linear(h, w + one, f"{at}.{one}") for one in "qkv")
    y = blocks.cached_attention(
        d.b,
        shape,
        d.options,
        q,
        (k, v),
        at,
        layer=layer,
        scale=1.0,
        bias=_bias(d.b, stack, d.config),
        bidirectional=stack == "enc",
    )
    return d.residual(x, d.linear(y, w + "o", at + ".output"), at, 1.0)


def _cross_attention(d: Decoder[T5Config], x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.cross_attention", f"dec.blk.{layer}.cross_attn_"
    q = d.linear(d.norm(x, w + "norm", at + ".norm"), w + "q", at + ".q")
    y = blocks.cross_attention(d.b, d.config.shape, d.options, q, at, layer=layer, scale=1.0)
    return d.residual(x, d.linear(y, w + "o", at + ".output"), at, 1.0)


def _feed_forward(d: Decoder[T5Config], x: Tensor, stack: str, layer: int) -> Tensor:
    at, w = f"layers.{layer}.feed_forward", f"{stack}.blk.{layer}.ffn_"
    h = d.norm(x, w + "norm", at + ".norm")
    up = d.linear(h, w + "up", at + ".up")
    if d.b.has(w + "gate.weight"):
        up = d.b.gelu_mul(d.linear(h, w + "gate", at + ".gate"), up, at + ".gelu_mul")
    else:
        up = d.b.relu(up, at + ".relu")
    return d.residual(x, d.linear(up, w + "down", at + ".down"), at, 1.0)


def _embedded(d: Decoder[T5Config], stack: str) -> Tensor:
    return d.b.embed(d.b.weight(shared.EMBEDDING), "embedding")


def _encoded(d: Decoder[T5Config], x: Tensor) -> Tensor:
    return d.norm(x, "enc.output_norm", "output.norm")


def _logits(d: Decoder[T5Config], x: Tensor) -> Tensor:
    x = d.norm(x, "dec.output_norm", "output.norm")
    head, scales = d.b.has(shared.HEAD), d.config.scales_output
    if scales or (scales is None and not head):
        x = d.b.scale(x, "output.scaled", factor=d.config.width**-0.5)
    weight = d.b.weight(shared.HEAD if head else shared.EMBEDDING)
    return d.b.matmul(x, weight, "logits", float_inputs=True)


_SUBLAYERS = Sublayers(
    embedded=_embedded,
    self_attention=_self_attention,
    cross_attention=_cross_attention,
    feed_forward=_feed_forward,
    encoded=_encoded,
    logits=_logits,
)


def _attention_rows(stack: str, gguf: str, checkpoint: str) -> tuple[NameRow, ...]:
    def matrix(one: str, *shape: str) -> NameRow:
        return of_stack(stack, f"{gguf}_{one}.weight", f"{checkpoint}.{one}.weight", *shape)

    return (*(matrix(one, "q_width", "width") for one in "qkv"), matrix("o", "width", "q_width"))


def _stack_rows(stack: str) -> tuple[NameRow, ...]:
    """Return the tensors of a stack, "encoder" or "decoder"."""
    short, at = stack[:3], f"{stack}.block.{{i}}.layer."
    last = at + ("1" if stack == "encoder" else "2")
    dense = last + ".DenseReluDense."
    columns = "columns" if stack == "encoder" else "causal_columns"
    cross: tuple[NameRow, ...] = ()
    if stack == "decoder":
        norm = of_stack(stack, "cross_attn_norm.weight", at + "1.layer_norm.weight", "width")
        cross = (norm, *_attention_rows(stack, "cross_attn", at + "1.EncDecAttention"))
    bias = f"{stack}.block.{{i}}.layer.0.SelfAttention.relative_attention_bias.weight"
    return (
        of_model(f"{short}.blk.{{i}}.{_BUCKETS}", bias, "buckets", "heads"),
        of_model(_BIAS.format(stack=short), None, "heads", columns),
        of_model(f"{short}.output_norm.weight", f"{stack}.final_layer_norm.weight", "width"),
        of_stack(stack, "attn_norm.weight", at + "0.layer_norm.weight", "width"),
        *_attention_rows(stack, "attn", at + "0.SelfAttention"),
        *cross,
        of_stack(stack, "ffn_norm.weight", last + ".layer_norm.weight", "width"),
        of_stack(
            stack, "ffn_gate.weight", dense + "wi_0.weight", "feed_forward", "width", optional=True
        ),
        of_stack(stack, "ffn_up.weight", dense + "wi_1.weight", "feed_forward", "width"),
        of_stack(stack, "ffn_up.weight", dense + "wi.weight", "feed_forward", "width"),
        of_stack(stack, "ffn_down.weight", dense + "wo.weight", "width", "feed_forward"),
    )


_MODULES: Own = {
    "shared": (),  # each stack has a module of its own
    "encoder.embed_tokens": ("embedding",),
    "encoder.block.{i}.layer.0": ("attention.residual",),
    "encoder.block.{i}.layer.0.SelfAttention": ("attention.output",),
    "encoder.block.{i}.layer.1": ("feed_forward.residual",),
    "encoder.block.{i}.layer.1.DenseReluDense": ("feed_forward.down",),
    "decoder.embed_tokens": ("embedding",),
    "decoder.block.{i}.layer.0": ("attention.residual",),
    "decoder.block.{i}.layer.0.SelfAttention": ("attention.output",),
    "decoder.block.{i}.layer.1": ("cross_attention.residual",),
    "decoder.block.{i}.layer.1.EncDecAttention": ("cross_attention.output",),
    "decoder.block.{i}.layer.2": ("feed_forward.residual",),
    "decoder.block.{i}.layer.2.DenseReluDense": ("feed_forward.down",),
}


def _modules(weights: Weights) -> Own:
    """Return the modules. Gated feed-forwards have other ones than plain ones."""
    unused = ("wi",) if "dec.blk.0.ffn_gate.weight" in weights else ("wi_0", "wi_1")
    last = ("encoder.block.{i}.layer.1", "decoder.block.{i}.layer.2")
    others = {f"{one}.DenseReluDense.{name}": () for one in last for name in unused}
    return {**_MODULES, **others}


T5 = Architecture(
    title="T5",
    gguf="t5",
    model_types=("t5", "mt5"),
    config=T5Config,
    tensors=(
        of_model(shared.EMBEDDING, "shared.weight", "vocabulary", "width"),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        *_stack_rows("encoder"),
        *_stack_rows("decoder"),
    ),
    graph=partial(decoder_plan, _SUBLAYERS),
    encoder_graph=partial(encoder_plan, _SUBLAYERS),
    unused=("EncDecAttention.relative_attention_bias.weight",),
    derived=_position_biases,
    must_be=(),
    tied=True,
    copies=stacks.COPIES,
    module=lambda name: (name,),
    modules=_modules,
)
