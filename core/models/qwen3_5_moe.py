"""Qwen3.5 with experts in every layer (Qwen3.5-35B-A3B, Qwen3.6-35B-A3B): layers as those of the
dense ones, with a mixture of experts and one that every token passes in place of the feed-forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.models import qwen3_5 as dense
from llm_lite.core.models.blocks import Decoder, decoder_plan
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.experts import (
    CHOSEN,
    EXPERT_WIDTH,
    EXPERTS,
    EXPERTS_OR_BOTH,
    ROUTER,
    SHARED_EXPERT,
    ExpertRows,
    has_both,
    stacks_of_checkpoints,
    whole_tiles,
)
from llm_lite.core.models.description.rows import FieldRow, Known, integer, row
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class Qwen35MoeConfig(ExpertRows, dense.Qwen35Config, frozen=True, kw_only=True):
    """shared_width: of the hidden values of the expert that every token passes. has_both: the gate
    and the up of experts are one matrix."""

    width: int = row(replace(shared.WIDTH, check=whole_tiles))
    feed_forward: int = row(
        replace(shared.FEED_FORWARD, checkpoint=None, check=integer(0), default=0)
    )
    experts: int = row(EXPERTS)
    chosen: int = row(CHOSEN)
    expert_width: int = row(EXPERT_WIDTH)
    shared_width: int = row(
        FieldRow("expert_shared_feed_forward_length", "shared_expert_intermediate_size", integer())
    )
    has_both: bool

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        own = super().of_tensors(known, weights, path)
        return {**own, "has_both": has_both(weights)}

    @property
    def normalized(self) -> bool:
        return True

    @property
    def shape(self) -> ModelShape:
        return replace(super().shape, feed_forward=self.expert_width)


def _layer(d: Decoder[Qwen35MoeConfig], x: Tensor, layer: int) -> Tensor:
    return expert_block(d, dense.mixer(d, x, layer), layer, pre_norm="post_attention_norm")


QWEN3_5_MOE = Architecture(
    title="Qwen3.5-MoE",
    gguf="qwen35moe",
    model_types=("qwen3_5_moe_text", "qwen3_5_moe"),
    config=Qwen35MoeConfig,
    tensors=(*dense.TENSORS, ROUTER, *EXPERTS_OR_BOTH, *SHARED_EXPERT),
    fused=stacks_of_checkpoints("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    graph=partial(decoder_plan, _layer),
    refused=(),
    drafting="nextn_predict_layers",
    defaults={**dense.DEFAULTS, "num_key_value_heads": 2},
    modules={"layers.{i}.linear_attn.norm": ()},  # it multiplies by the gate, too
)
