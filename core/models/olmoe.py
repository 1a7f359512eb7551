"""OLMoE: a mixture of many small experts (https://arxiv.org/abs/2409.02060); queries and keys are
normed over all heads at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    ATTENTION,
    ATTENTION_NORM,
    FEED_FORWARD,
    FEED_FORWARD_NORM,
    MODEL_TENSORS,
    ROPE_TENSORS,
)
from llm_lite.core.models.description.experts import (
    EXPERT_TENSORS,
    NORMALIZED,
    ROUTER,
    ExpertsConfig,
    stacks_of_checkpoints,
    whole_tiles,
)
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.description.tensors import of_layer
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class OlmoeConfig(ExpertsConfig, frozen=True, kw_only=True):
    """The width of an expert is that of the feed-forward."""

    feed_forward: int = row(replace(FEED_FORWARD, check=whole_tiles))
    expert_width: int
    normalized: bool = row(replace(NORMALIZED, default=False))

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        own = super().of_tensors(known, weights, path)
        return {**own, "expert_width": known["feed_forward"]}


def _layer(d: Decoder[OlmoeConfig], x: Tensor, layer: int) -> Tensor:
    return expert_block(d, attention_block(d, x, layer, qk_norm=True), layer)


OLMOE = Architecture(
    title="OLMoE",
    gguf="olmoe",
    model_types=("olmoe",),
    config=OlmoeConfig,
    tensors=(
        *(*MODEL_TENSORS, *ROPE_TENSORS),
        *(ATTENTION_NORM, *ATTENTION),
        of_layer("attn_q_norm.weight", "self_attn.q_norm.weight", "q_width"),
        of_layer("attn_k_norm.weight", "self_attn.k_norm.weight", "kv_width"),
        *(FEED_FORWARD_NORM, ROUTER, *EXPERT_TENSORS),
    ),
    fused=stacks_of_checkpoints("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("clip_qkv", None, "bounds of queries, keys and values are"),
    ),
    refused=(),
    defaults={"rms_norm_eps": 1e-5, "max_position_embeddings": 4096},
)
