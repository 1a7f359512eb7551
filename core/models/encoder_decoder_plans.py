"""The order of sublayers in encoder-decoders; an architecture provides its sublayers and its
ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.core.models.blocks import Decoder, leave_cross, residual_stream
from llm_lite.core.models.description.architecture import Weights
from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Plan, Tensor


class Sublayers(Struct, frozen=True):
    """Each takes the stream x [T, width] and gives the stream behind it; `stack` is "enc" or "dec".

    embedded(d, stack): the stream that a stack begins with. self_attention(d, shape, x, stack,
    layer), cross_attention(d, x, layer), feed_forward(d, x, stack, layer). encoded(d, x): what the
    encoder ends with. logits(d, x): [O, vocabulary] of the decoder's last stream.
    """

    embedded: Callable[[Decoder[Any], str], Tensor]
    self_attention: Callable[[Decoder[Any], ModelShape, Tensor, str, int], Tensor]
    cross_attention: Callable[[Decoder[Any], Tensor, int], Tensor]
    feed_forward: Callable[[Decoder[Any], Tensor, str, int], Tensor]
    encoded: Callable[[Decoder[Any], Tensor], Tensor]
    logits: Callable[[Decoder[Any], Tensor], Tensor]


def encoder_plan(
    parts: Sublayers, config: Any, weights: Weights, options: BuildOptions, bucket: Bucket
) -> Plan:
    """Build the plan to hidden states [tokens, width]; the decoder's keys and values of them are
    left in states."""
    d, shape = _stack(config, weights, options, bucket), config.encoder_shape

    def layer(x: Tensor, index: int) -> Tensor:
        x = parts.self_attention(d, shape, x, "enc", index)
        return parts.feed_forward(d, x, "enc", index)

    x = parts.encoded(d, residual_stream(d.b, shape, parts.embedded(d, "enc"), layer))
    for index in range(config.decoder_layers):
        leave_cross(d, x, f"dec.blk.{index}.cross_attn_", index)
    return d.b.finish(x)


def decoder_plan(
    parts: Sublayers, config: Any, weights: Weights, options: BuildOptions, bucket: Bucket
) -> Plan:
    """Build the plan of the decoder, to the logits of the target's last tokens."""
    d, shape = _stack(config, weights, options, bucket), config.shape

    def layer(x: Tensor, index: int) -> Tensor:
        x = parts.self_attention(d, shape, x, "dec", index)
        return parts.feed_forward(d, parts.cross_attention(d, x, index), "dec", index)

    x = residual_stream(d.b, shape, parts.embedded(d, "dec"), layer)
    return d.b.finish(parts.logits(d, d.b.output_rows(x, "output.rows")))


def _stack(config: Any, weights: Weights, options: BuildOptions, bucket: Bucket) -> Decoder[Any]:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    return Decoder(b, config, options)
