"""Granite's mixtures of experts, with an expert that every token passes or without: layers as those
of the dense ones (https://huggingface.co/ibm-granite/granite-3.1-3b-a800m-instruct)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.experts import (
    CHOSEN,
    EXPERT_TENSORS,
    EXPERTS,
    ROUTER,
    SHARED_EXPERT,
    ExpertRows,
    stacks_of_checkpoints,
    whole_tiles,
)
from llm_lite.core.models.description.rows import FieldRow, integer, row
from llm_lite.core.models.description.tensors import FusedRow, NameRow
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.models.granite import GraniteConfig, scales_of
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class GraniteMoeConfig(ExpertRows, GraniteConfig, frozen=True, kw_only=True):
    """The width of an expert is that of the feed-forward. shared_width: of the expert that every
    token passes; 0: there is none."""

    width: int = row(replace(shared.WIDTH, check=whole_tiles))
    feed_forward: int = row(replace(shared.FEED_FORWARD, check=whole_tiles))
    experts: int = row(EXPERTS)
    chosen: int = row(CHOSEN)
    shared_width: int = row(
        FieldRow(
            "expert_shared_feed_forward_length", "shared_intermediate_size", integer(0), default=0
        )
    )

    @property
    def normalized(self) -> bool:
        return False  # shares of those chosen alone add up to 1

    @property
    def expert_width(self) -> int:
        return self.feed_forward


def _layer(d: Decoder[GraniteMoeConfig], x: Tensor, layer: int) -> Tensor:
    factor = d.config.residual_scale
    x = attention_block(d, x, layer, scale=d.config.attention_scale, factor=factor)
    return expert_block(d, x, layer, late=True, factor=factor)


def _if_shared(one: NameRow, checkpoint: str | None) -> NameRow:
    full = checkpoint and f"layers.{{i}}.shared_mlp.{checkpoint}"
    return replace(one, checkpoint=full, optional=lambda c, _: not c.shared_width)


_MIXTURE = "block_sparse_moe."
_SHARED_GATE, _SHARED_UP, _SHARED_DOWN = (
    _if_shared(one, name)
    for one, name in zip(SHARED_EXPERT, (None, None, "output_linear.weight"), strict=False)
)

GRANITE_MOE = Architecture(
    title="Granite-MoE",
    gguf="granitemoe",
    model_types=("granitemoe", "granitemoeshared"),
    config=GraniteMoeConfig,
    tensors=(
        *(*shared.MODEL_TENSORS, *shared.ROPE_TENSORS),
        *(shared.ATTENTION_NORM, *shared.ATTENTION, shared.FEED_FORWARD_NORM),
        replace(ROUTER, checkpoint=f"layers.{{i}}.{_MIXTURE}router.layer.weight"),
        *EXPERT_TENSORS,
        *(_SHARED_GATE, _SHARED_UP, _SHARED_DOWN),
    ),
    fused=(
        *stacks_of_checkpoints(_MIXTURE + "input_linear.weight", _MIXTURE + "output_linear.weight"),
        FusedRow(
            "blk.{i}.ffn_gate_up_shexp.of_checkpoint",
            "layers.{i}.shared_mlp.input_linear.weight",
            (_SHARED_GATE, _SHARED_UP),
        ),
    ),
    graph=partial(decoder_plan, _layer, scales_of=scales_of),
    refused=(),
    modules={
        "layers.{i}.mlp": (),
        "layers.{i}.mlp.experts": (),
        "layers.{i}.block_sparse_moe": ("feed_forward.sum",),
        "layers.{i}.block_sparse_moe.experts": ("feed_forward.sum",),
        "layers.{i}.block_sparse_moe.router": ("feed_forward.router",),
        "layers.{i}.block_sparse_moe.router.layer": (),  # whose weight is used without it
        "layers.{i}.shared_mlp": ("feed_forward.shared.down",),
    },
)
