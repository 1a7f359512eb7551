"""Seed-OSS: llama whose queries, keys and values have biases, and heads a width of their own
(https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct). GGUF names its second norm otherwise.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.tensors import of_layer
from llm_lite.core.plan.plan import Tensor

_SECOND_NORM = "post_attention_norm"


def _layer(d: Decoder[shared.DecoderConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer, pre_norm=_SECOND_NORM)


SEED_OSS = Architecture(
    title="Seed-OSS",
    gguf="seed_oss",
    model_types=("seed_oss",),
    config=shared.DecoderConfig,
    tensors=(
        *shared.MODEL_TENSORS,
        *shared.ROPE_TENSORS,
        shared.ATTENTION_NORM,
        *shared.ATTENTION,
        *shared.ATTENTION_BIASES,
        of_layer(f"{_SECOND_NORM}.weight", "post_attention_layernorm.weight", "width"),
        *shared.GATED,
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", True, "queries and keys without biases are"),
        ("attention_out_bias", False, "a bias behind attention is"),
        ("mlp_bias", False, "biases are"),
    ),
    defaults={
        "attention_bias": True,
        "attention_out_bias": False,
        "head_dim": 128,
        "num_key_value_heads": 8,
        "max_position_embeddings": 524288,
    },
)
