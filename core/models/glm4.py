"""GLM-4 (0414): norms before and behind attention and feed-forward, biases of queries, keys and
values, and half of each head that rotates, by pairs of neighbours
(https://huggingface.co/zai-org/GLM-4-9B-0414)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.models.description.tensors import FusedRow, of_layer
from llm_lite.core.plan.plan import Tensor


class Glm4Config(shared.DecoderConfig, frozen=True, kw_only=True):
    pairing: str = row(shared.PAIRING_OF_NEIGHBOURS)


def _layer(d: Decoder[Glm4Config], x: Tensor, layer: int) -> Tensor:
    x = attention_block(d, x, layer, post_norm="post_attention_norm")
    return gated_block(d, x, layer, post_norm="post_ffw_norm")


GLM_4 = Architecture(
    title="GLM-4",
    gguf="glm4",
    model_types=("glm4",),
    config=Glm4Config,
    tensors=(
        *shared.DECODER_TENSORS,
        *shared.ATTENTION_BIASES,
        of_layer("post_attention_norm.weight", "post_self_attn_layernorm.weight", "width"),
        of_layer("post_ffw_norm.weight", "post_mlp_layernorm.weight", "width"),
    ),
    fused=(
        FusedRow(
            "blk.{i}.ffn_up.weight",
            "layers.{i}.mlp.gate_up_proj.weight",
            (shared.GATE, shared.UP),
        ),
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", True, "queries and keys without biases are"),
    ),
    defaults={
        "attention_bias": True,
        "head_dim": 128,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 1.5625e-07,
        "max_position_embeddings": 131072,
    },
)
