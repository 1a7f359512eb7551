"""Cohere's Command R and its kin: one LayerNorm without a bias before attention and feed-forward,
which stand beside each other; pairs of neighbours rotate, and logits are scaled
(https://huggingface.co/CohereLabs/c4ai-command-r-v01). In the second generation three layers of
four have windows and rotate, the fourth sees all and does not
(https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024).
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.ranges import MULTIPLIER
from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import FieldRow, number, row
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class CohereConfig(shared.DecoderConfig, frozen=True, kw_only=True):
    eps: float = row(replace(shared.LAYER_NORM_EPS, checkpoint="layer_norm_eps"))
    pairing: str = row(shared.PAIRING_OF_NEIGHBOURS)
    logit_scale: float = row(
        FieldRow("logit_scale", "logit_scale", number(MULTIPLIER), assumed=0.0625)
    )


class Cohere2Config(CohereConfig, frozen=True, kw_only=True):
    window: int = row(shared.WINDOW_OF_THREE_IN_FOUR)
    sliding: tuple[bool, ...] = row(shared.SLIDING_THREE_IN_FOUR)


def _layer(d: Decoder[CohereConfig], x: Tensor, layer: int) -> Tensor:
    rotary = d.config.sliding[layer] or not d.config.window
    attended = attention_block(d, x, layer, rotary=rotary)
    return gated_block(d, attended, layer, pre_norm="attn_norm", reads=x)


def _scales(config: CohereConfig) -> Scales:
    return Scales(logits=config.logit_scale)


COHERE = Architecture(
    title="Cohere",
    gguf="command-r",
    model_types=("cohere",),
    config=CohereConfig,
    tensors=(
        *(one for one in shared.DECODER_TENSORS if one is not shared.FEED_FORWARD_NORM),
        *shared.PLAIN_NORMS,
    ),
    graph=partial(decoder_plan, _layer, scales_of=_scales),
    derived=shared.plain_norms,
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("use_qk_norm", False, "norms of queries and keys are"),
    ),
    defaults={"max_position_embeddings": 8192, "rope_theta": 500000.0},
    tied=True,
)
COHERE_2 = replace(
    COHERE,
    title="Cohere 2",
    gguf="cohere2",
    model_types=("cohere2",),
    config=Cohere2Config,
    defaults={"max_position_embeddings": 8192, "sliding_window": 4096},
)
