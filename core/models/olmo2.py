"""OLMo 2: norms stand behind attention and feed-forward, not before them; queries and keys are
normed over all heads at once (https://arxiv.org/abs/2501.00656)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    ATTENTION,
    GATED,
    MODEL_TENSORS,
    ROPE_TENSORS,
    DecoderConfig,
)
from llm_lite.core.models.description.tensors import of_layer
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[DecoderConfig], x: Tensor, layer: int) -> Tensor:
    x = attention_block(d, x, layer, pre_norm="", post_norm="post_attention_norm", qk_norm=True)
    return gated_block(d, x, layer, pre_norm="", post_norm="post_ffw_norm")


OLMO_2 = Architecture(
    title="OLMo 2",
    gguf="olmo2",
    model_types=("olmo2",),
    config=DecoderConfig,
    tensors=(
        *MODEL_TENSORS,
        *ROPE_TENSORS,
        *ATTENTION,
        of_layer("attn_q_norm.weight", "self_attn.q_norm.weight", "q_width"),
        of_layer("attn_k_norm.weight", "self_attn.k_norm.weight", "kv_width"),
        of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
        *GATED,
        of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
    ),
    graph=partial(decoder_plan, _layer),
    defaults={"rms_norm_eps": 1e-5},
)
