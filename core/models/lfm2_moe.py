"""LFM2 with experts in all layers but the first ones (https://huggingface.co/LiquidAI/LFM2-8B-A1B):
a sigmoid for each expert, and a bias that counts in the choice only."""

from __future__ import annotations

from functools import partial
from typing import Any

from llm_lite.core.formats.ranges import MULTIPLIER
from llm_lite.core.models import lfm2 as dense
from llm_lite.core.models.blocks import Decoder, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.experts import (
    CHOSEN,
    EXPERT_TENSORS,
    EXPERT_WIDTH,
    EXPERTS,
    NORMALIZED,
    ROUTER,
    ExpertRows,
    whole_tiles,
)
from llm_lite.core.models.description.rows import FieldRow, Known, UnfitError, integer, number, row
from llm_lite.core.models.description.tensors import NameRow, of_layer
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_SIGMOID = 2  # of GGUF's functions of routers


def _is_sigmoid(value: Any, known: Known) -> int:
    if type(value) is not int or value != _SIGMOID:
        raise UnfitError(f"{_SIGMOID}, a sigmoid", value)
    return value


class Lfm2MoeConfig(ExpertRows, dense.Lfm2Config, frozen=True, kw_only=True):
    """dense_layers: the first, which have a feed-forward. share: what shares are multiplied by."""

    width: int = row(replace(shared.WIDTH, check=whole_tiles))
    feed_forward: int = row(shared.FEED_FORWARD)
    dense_layers: int = row(
        FieldRow("leading_dense_block_count", "num_dense_layers", integer(0, "layers"), assumed=2)
    )
    experts: int = row(EXPERTS)
    chosen: int = row(CHOSEN)
    expert_width: int = row(EXPERT_WIDTH)
    normalized: bool = row(replace(NORMALIZED, assumed=True))
    share: float = row(
        FieldRow("expert_weights_scale", "routed_scaling_factor", number(MULTIPLIER), default=1.0)
    )
    gating: int = row(FieldRow("expert_gating_func", None, _is_sigmoid, default=_SIGMOID))


def _layer(d: Decoder[Lfm2MoeConfig], x: Tensor, layer: int) -> Tensor:
    x = dense.mixer(d, x, layer)
    if layer < d.config.dense_layers:
        return gated_block(d, x, layer)
    return expert_block(d, x, layer, sigmoid=True, share=d.config.share)


def _of_dense(one: NameRow) -> NameRow:
    return replace(one, optional=lambda c, i: i >= c.dense_layers)


def _of_experts(one: NameRow, checkpoint: str) -> NameRow:
    full = f"layers.{{i}}.feed_forward.{checkpoint}"
    return replace(one, checkpoint=full, optional=lambda c, i: i < c.dense_layers)


_GATE, _UP, _DOWN = EXPERT_TENSORS

LFM2_MOE = Architecture(
    title="LFM2-MoE",
    gguf="lfm2moe",
    model_types=("lfm2_moe",),
    config=Lfm2MoeConfig,
    tensors=(
        *dense.TENSORS,
        *map(_of_dense, dense.FEED_FORWARD),
        _of_experts(ROUTER, "gate.weight"),
        of_layer("exp_probs_b.bias", "feed_forward.expert_bias", "experts", optional=True),
        *(
            _of_experts(one, f"experts.{name}.weight")
            for one, name in ((_GATE, "w1"), (_UP, "w3"), (_DOWN, "w2"))
        ),
    ),
    graph=partial(decoder_plan, _layer, final_norm=shared.EMBEDDING_NORM),
    refused=(),
    defaults=dense.DEFAULTS,
    tied=True,
    modules=dense.LFM2.modules,
)
