"""OLMo 2 and 3: norms stand behind attention and feed-forward, not before them; queries and keys
are normed over all heads at once (https://arxiv.org/abs/2501.00656). OLMo 3, which GGUF calls olmo2
too, has windows in three layers of four, whose rotary positions are never scaled. Its files have
the whole factor of YaRN as `attn_factor`, others only what it is more than YaRN's own.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    ATTENTION,
    ATTENTION_FACTOR,
    GATED,
    MODEL_TENSORS,
    ROPE_TENSORS,
    SLIDING_THREE_IN_FOUR,
    WINDOW_OF_THREE_IN_FOUR,
    DecoderConfig,
)
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.description.tensors import of_layer
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


def _factor_of_yarn(known: Known) -> float:
    return rope.yarn_magnitude(known["scaling_factor"]) if known["scaling"] == "yarn" else 1.0


def _whole_factor(config: CheckpointConfig, known: Known) -> float | None:
    beside = rope.attention_factor(config, known)
    return None if beside is None else beside * _factor_of_yarn(known)


class OlmoConfig(DecoderConfig, frozen=True, kw_only=True):
    window: int = row(WINDOW_OF_THREE_IN_FOUR)
    sliding: tuple[bool, ...] = row(SLIDING_THREE_IN_FOUR)
    attention_factor: float = row(
        replace(ATTENTION_FACTOR, checkpoint=_whole_factor, default=_factor_of_yarn)
    )

    @property
    def rotary_magnitude(self) -> float:
        return self.attention_factor


def _layer(d: Decoder[OlmoConfig], x: Tensor, layer: int) -> Tensor:
    x = attention_block(
        d,
        x,
        layer,
        pre_norm="",
        post_norm="post_attention_norm",
        qk_norm=True,
        theta=d.config.theta if d.config.sliding[layer] else None,
    )
    return gated_block(d, x, layer, pre_norm="", post_norm="post_ffw_norm")


OLMO_2 = Architecture(
    title="OLMo 2",
    gguf="olmo2",
    model_types=("olmo2", "olmo3"),
    config=OlmoConfig,
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
    defaults_of={"olmo3": {"sliding_window": 4096, "rope_theta": 500000.0}},
)
