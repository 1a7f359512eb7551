"""OLMo 1: llama whose LayerNorms have neither weights nor biases
(https://arxiv.org/abs/2402.00838)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.models.llama import LlamaConfig
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class Olmo1Config(LlamaConfig, frozen=True, kw_only=True):
    eps: float = row(replace(shared.LAYER_NORM_EPS, checkpoint=None))


def _layer(d: Decoder[Olmo1Config], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


OLMO = Architecture(
    title="OLMo",
    gguf="olmo",
    model_types=("olmo",),
    config=Olmo1Config,
    tensors=(
        *(one for one in shared.DECODER_TENSORS if len(one.shape) > 1),
        *shared.ROPE_TENSORS,
        *shared.PLAIN_NORMS,
    ),
    graph=partial(decoder_plan, _layer),
    derived=shared.plain_norms,
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("clip_qkv", None, "queries, keys and values with bounds are"),
    ),
    refused=(
        ("expert_count", "mixtures of experts are"),
        ("attention.clamp_kqv", "queries, keys and values with bounds are"),
    ),
    modules={  # which have no weights
        "layers.{i}.input_layernorm": ("attention.norm",),
        "layers.{i}.post_attention_layernorm": ("feed_forward.norm",),
        "norm": ("output.norm",),
    },
)
