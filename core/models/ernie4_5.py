"""ERNIE 4.5 (dense): llama whose heads rotate by pairs of neighbours and have a width of their own
(https://huggingface.co/baidu/ERNIE-4.5-0.3B-PT)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.plan.plan import Tensor


class Ernie45Config(shared.DecoderConfig, frozen=True, kw_only=True):
    pairing: str = row(shared.PAIRING_OF_NEIGHBOURS)


def _layer(d: Decoder[Ernie45Config], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


ERNIE_4_5 = Architecture(
    title="ERNIE 4.5",
    gguf="ernie4_5",
    model_types=("ernie4_5",),
    config=Ernie45Config,
    tensors=shared.DECODER_TENSORS,
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("use_bias", False, "biases are"),
    ),
    defaults={
        "head_dim": 128,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
    },
    tied=True,
)
