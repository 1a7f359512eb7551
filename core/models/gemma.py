"""Gemma 1: llama with Gemma's norms, a feed-forward by GELU and a scaled embedding
(https://arxiv.org/abs/2403.08295)."""

from __future__ import annotations

import math
from functools import partial

from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.gemma3 import centred
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[shared.DecoderConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer, gelu=True)


def _scales(config: shared.DecoderConfig) -> Scales:
    return Scales(embedding=math.sqrt(config.width))


GEMMA_1 = Architecture(
    title="Gemma 1",
    gguf="gemma",
    model_types=("gemma",),
    config=shared.DecoderConfig,
    tensors=tuple(one for one in centred(shared.DECODER_TENSORS) if one.gguf != shared.HEAD),
    graph=partial(decoder_plan, _layer, scales_of=_scales),
    # A config.json of the hub says "gelu" and means that of `hidden_activation`.
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("use_bidirectional_attention", False, "attention to later tokens is"),
    ),
    defaults={"head_dim": 256, "max_position_embeddings": 8192},
    tied=True,
    modules={"embed_tokens": ("embedding.scaled",)},
)
