"""Muse Glimmer (text): embeddings are normed, what heads find has a gate by a sigmoid, and of four
layers three slide and rotate, and one sees all and does not. Queries and keys are normed without
weights; queries are then as large as the config says
(https://huggingface.co/docs/transformers/main/en/model_doc/muse_glimmer).

GGUF's norms multiply by their weights, a checkpoint's within layers by one more. GGUF files have
the size of queries as the weights of their norm, and say nothing of the smaller epsilon of norms
behind attention and feed-forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import EPSILON, MULTIPLIER
from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import FieldRow, Known, number, row
from llm_lite.core.models.description.tensors import of_layer, of_model
from llm_lite.core.models.gemma3 import cap, centred
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace


def _sliding(config: CheckpointConfig, known: Known) -> list[bool]:
    """Return for each layer whether it slides, as those do that rotate."""
    layers = known["layers"]
    of_three = [(layers - layer) % 4 != 1 for layer in range(layers)]
    sliding = shared.sliding_layers(config, known) or of_three
    if config.get("layer_rope_theta") is not None:
        base = known["theta"]
        if config.list_of("layer_rope_theta", (int, float), layers) != [base * s for s in sliding]:
            raise UnsupportedError(
                f"{config.path}: layer_rope_theta: known are layers that slide and have {base:g}, "
                "and layers that see all and have 0"
            )
    return sliding


class MuseGlimmerConfig(shared.DecoderConfig, frozen=True, kw_only=True):
    """post_eps: of the norms behind attention and feed-forward."""

    pairing: str = row(shared.PAIRING_OF_LLAMA)
    window: int = row(shared.WINDOW_OF_THREE_IN_FOUR)
    sliding: tuple[bool, ...] = row(
        replace(shared.SLIDING, checkpoint=_sliding, default=shared.three_in_four)
    )
    post_eps: float = row(
        FieldRow("attention.post_norm_rms_epsilon", "post_norm_eps", number(EPSILON), default=1e-8)
    )
    logit_scale: float = row(
        FieldRow("logit_scale", "output_multiplier", number(MULTIPLIER), assumed=26**-0.5)
    )
    softcap: float = row(cap("final_logit_softcapping", 20.0))

    @property
    def post_norm_eps(self) -> float:
        return self.post_eps


def _layer(d: Decoder[MuseGlimmerConfig], x: Tensor, layer: int) -> Tensor:
    x = attention_block(
        d,
        x,
        layer,
        post_norm="post_attention_norm",
        qk_norm=True,
        rotary=d.config.sliding[layer],
        gate="attn_gate",
    )
    return gated_block(d, x, layer, post_norm="post_ffw_norm")


def _scales(config: MuseGlimmerConfig) -> Scales:
    return Scales(logits=config.logit_scale, logit_cap=config.softcap)


def _query_sizes(config: CheckpointConfig, known: Known) -> list[TensorData]:
    """Return the weights of the norms of queries and keys, which a config.json says as one
    factor."""
    factor = config.number("qk_scale_factor", 3.87, within=MULTIPLIER)
    ones = np.ones(known["head_dim"])
    return rope.checkpoint_factors(config, known) + [
        float_tensor(f"blk.{layer}.attn_{one}_norm.weight", by * ones)
        for layer in range(known["layers"])
        for one, by in (("q", factor), ("k", 1.0))
    ]


def _plain_norm(config: MuseGlimmerConfig, _: Mapping[str, TensorData]) -> list[TensorData]:
    return [float_tensor(shared.NORM_SCALE, np.ones(config.width))]


MUSE_GLIMMER = Architecture(
    title="Muse Glimmer",
    gguf="muse-glimmer",
    model_types=("muse_glimmer_text", "muse_glimmer"),
    config=MuseGlimmerConfig,
    tensors=(
        *shared.MODEL_TENSORS,
        of_model(shared.NORM_SCALE, None, "width"),
        *shared.ROPE_TENSORS,
        *shared.ATTENTION,
        of_layer("attn_gate.weight", "self_attn.gate_proj.weight", "q_width", "width"),
        *(replace(one, checkpoint=None) for one in (shared.QUERY_NORM, shared.KEY_NORM)),
        *shared.GATED,
        *centred(
            (
                shared.ATTENTION_NORM,
                of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
                of_layer("ffn_norm.weight", "pre_feedforward_layernorm.weight", "width"),
                of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
            )
        ),
    ),
    graph=partial(decoder_plan, _layer, scales_of=_scales, norms_embedding=True),
    derived=_plain_norm,
    of_config=_query_sizes,
    must_be=(
        ("hidden_activation", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
    ),
    defaults={
        "head_dim": 128,
        "num_key_value_heads": 2,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "sliding_window": 2048,
    },
    module=lambda name: (f"model.language_model.{name}",),
    modules={"embed_tokens": ("embedding.norm",)},
)
