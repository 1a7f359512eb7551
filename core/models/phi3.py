"""Phi-3 and Phi-4-mini: llama whose queries, keys and values are one matrix, gate and up another; a
part of each head rotates, with LongRoPE in the long ones (https://arxiv.org/abs/2404.14219)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.tensors import FusedRow
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[shared.DecoderConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


PHI_3 = Architecture(
    title="Phi-3",
    gguf="phi3",
    model_types=("phi3",),
    config=shared.DecoderConfig,
    tensors=shared.DECODER_TENSORS,
    fused=(
        FusedRow(
            "blk.{i}.attn_qkv.weight",
            "layers.{i}.self_attn.qkv_proj.weight",
            (shared.QUERY, shared.KEY, shared.VALUE),
        ),
        FusedRow(
            "blk.{i}.ffn_up.weight",
            "layers.{i}.mlp.gate_up_proj.weight",
            (shared.GATE, shared.UP),
        ),
    ),
    graph=partial(decoder_plan, _layer),
    defaults={
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
    },
)
