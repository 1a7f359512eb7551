"""Qwen3 with a mixture of experts in every layer (Qwen3-30B-A3B, Qwen3-Coder;
https://arxiv.org/abs/2505.09388)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    ATTENTION,
    ATTENTION_NORM,
    FEED_FORWARD_NORM,
    KEY_NORM,
    MODEL_TENSORS,
    QUERY_NORM,
    ROPE_TENSORS,
)
from llm_lite.core.models.description.experts import (
    EXPERT_TENSORS,
    ROUTER,
    ExpertsConfig,
    stacks_of_checkpoints,
)
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[ExpertsConfig], x: Tensor, layer: int) -> Tensor:
    return expert_block(d, attention_block(d, x, layer, qk_norm=True), layer)


QWEN3_MOE = Architecture(
    title="Qwen3-MoE",
    gguf="qwen3moe",
    model_types=("qwen3_moe",),
    config=ExpertsConfig,
    tensors=(
        *(*MODEL_TENSORS, *ROPE_TENSORS),
        *(ATTENTION_NORM, *ATTENTION, QUERY_NORM, KEY_NORM),
        *(FEED_FORWARD_NORM, ROUTER, *EXPERT_TENSORS),
    ),
    fused=stacks_of_checkpoints("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("decoder_sparse_step", 1, "layers without experts are"),
        ("mlp_only_layers", [], "layers without experts are"),
    ),
    refused=(),
    defaults={
        "use_sliding_window": False,
        "sliding_window": 4096,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
    },
)
